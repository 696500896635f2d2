"""Losses of an Application Master as its events tell them."""

import pytest

from afo.events import types as ev
from afo.events.master_starts import MasterStarts


@pytest.mark.parametrize(
    ("waited_for", "previous_end", "why"),
    [
        ("disk_full", "ended with exit code 1", "disk_full, ended with exit code 1"),
        ("disk_full", "", "disk_full"),
        ("", "ended by signal 9", "ended by signal 9"),
        ("", "", ""),
    ],
)
def test_what_the_next_one_waited_for_is_why_the_one_before_ended(waited_for: str, previous_end: str, why: str) -> None:
    masters = MasterStarts()
    masters.take(ev.AmStarted(am_attempt=1, incarnation=1, address="a", host="h", pid=1), 1.0)
    again = ev.AmStarted(
        am_attempt=1, incarnation=2, address="a", host="h", pid=2, waited_for=waited_for, previous_end=previous_end
    )
    found = masters.take(again, 2.0)
    assert found is not None
    assert found.why == why

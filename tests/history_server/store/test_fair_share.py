"""Room shared by several owners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo_history_server.store.fair_share import choose_fairly, fair_share


@pytest.mark.parametrize(
    ("wants", "room", "share"),
    [((), 5, 0), ((3, 2), 5, 3), ((1, 100), 10, 9), ((1, 100, 100), 11, 5), ((4, 4, 4), 9, 3), ((7,), 0, 0)],
)
def test_shares(wants: tuple[int, ...], room: int, share: int) -> None:
    assert fair_share(wants, room) == share


@given(st.lists(st.sampled_from("abcd")), st.integers(0, 30))
def test_as_many_as_fit_are_chosen_and_nobody_has_much_more_than_who_lost_some(owners: list[str], room: int) -> None:
    items = list(enumerate(owners))
    found = choose_fairly(items, lambda item: item[1], room)
    assert found == sorted(found)
    assert len(found) == min(room, len(items))
    most = max((sum(item[1] == owner for item in found) for owner in "abcd"), default=0)
    for owner in "abcd":
        wanted = [item for item in items if item[1] == owner]
        got = [item for item in found if item[1] == owner]
        assert got == wanted[: len(got)]
        assert len(got) == len(wanted) or len(got) >= most - 1

"""How `make compare-faults` tells what became of a training."""

import pytest

from side_by_side.outcome import Outcome, Seen, outcome

FAULT, UNTIL = 100.0, 145.0
BOTH = {1, 2}


def steps(begin: float, end: float, first: int, by: set[int], per_s: int = 10) -> list[Seen]:
    """A line a second."""
    return [Seen(begin + second, first + per_s * second, frozenset(by)) for second in range(int(end - begin) + 1)]


BEFORE = steps(50, 100, 500, BOTH)


def after(*series: list[Seen], expected: set[int] = BOTH, gave_up: bool = False, over_at: float = FAULT) -> Outcome:
    """What became of it."""
    seen = BEFORE + [each for part in series for each in part]
    return outcome(seen, FAULT, UNTIL, expected, over_at=over_at, gave_up=gave_up)


def test_nothing_is_lost_where_the_others_go_on() -> None:
    found = after(steps(101, 130, 1010, {1}), steps(131, 145, 1310, {1, 3}), expected={1, 3})
    assert found == Outcome("recovered", 0, 1.0, 31.0, 0)


def test_one_that_never_comes_back_is_missing() -> None:
    found = after(steps(101, 145, 1010, {1}), expected={1, 3})
    assert found == Outcome("recovered", 0, 1.0, None, 1)


def test_what_is_done_again_is_lost() -> None:
    found = after(steps(120, 145, 960, {3, 4}), expected={3, 4})
    assert found == Outcome("recovered", 40, 21.0, 20.0, 0)


def test_from_zero() -> None:
    found = after(steps(120, 145, 10, {3, 4}), expected={3, 4})
    assert (found.kind, found.lost) == ("from zero", 990)


@pytest.mark.parametrize("late", [[], steps(101, 120, 1000, BOTH, per_s=0), steps(101, 128, 1010, BOTH)])
def test_hung(late: list[Seen]) -> None:
    assert after(late).kind == "hung"


def test_a_pause_that_ends_is_no_hang() -> None:
    found = after(steps(121, 140, 1010, BOTH), over_at=120.0)
    assert found == Outcome("recovered", 0, 21.0, 21.0, 0)


def test_failed() -> None:
    assert after(gave_up=True).kind == "failed"


def test_lines_that_cross_are_no_loss() -> None:
    assert after(steps(101, 145, 1008, {1}), steps(101, 145, 1010, {2})).lost == 0

"""Which step was when: never later than it was, and about right however long ago."""

from hypothesis import given
from hypothesis import strategies as st

from afo.state.step_clock import MOST_TICKS, StepClock

GAPS = st.lists(st.tuples(st.floats(0.5, 100), st.integers(0, 50)), min_size=1, max_size=900)


@given(gaps=GAPS)
def test_a_step_is_never_said_to_be_older_than_it_is(gaps: list[tuple[float, int]]) -> None:
    clock, truth = StepClock(), [(0.0, 0)]
    for seconds, steps in gaps:
        truth.append((truth[-1][0] + seconds, truth[-1][1] + steps))
        clock.tick(*truth[-1])
        clock = StepClock(clock.ticks)  # as the next process begins with it
    assert len(clock.ticks) <= MOST_TICKS
    assert clock.step_at(truth[-1][0]) == truth[-1][1]
    assert clock.step_at(truth[1][0] - 0.1) == 0
    for when, step in truth:
        assert clock.step_at(when) <= step


def test_ticks_of_long_ago_lie_further_apart_and_none_is_missed_by_much() -> None:
    clock = StepClock()
    for minute in range(100_000):
        clock.tick(60.0 * minute, minute)
    now = 99_999
    assert len(clock.ticks) <= MOST_TICKS
    for ago in (1, 100, 1000, 10_000, 50_000):
        assert 0 <= (now - ago) - clock.step_at(60.0 * (now - ago)) <= ago / 16 + 1


def test_a_clock_that_goes_back_is_not_believed() -> None:
    clock = StepClock([(1000.0, 5)])
    clock.tick(990.0, 7)
    assert clock.ticks == ((1000.0, 5),)
    clock.tick(1001.0, 8)
    assert [clock.step_at(at) for at in (999, 1000, 1002)] == [0, 5, 8]

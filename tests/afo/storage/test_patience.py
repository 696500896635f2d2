"""How long a file system that does not answer is waited for."""

import pytest

from afo.errors import ClusterUnreachable, NotFound
from afo.storage import patience


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Also undoes what `be_patient` did."""
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(patience, "_seconds", 0.0)
    return clock


class Outage:
    """Fails until a moment."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.now + seconds
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self._clock.now < self._end:
            raise ClusterUnreachable("nobody answers")
        return "done"


def test_a_command_says_at_once_what_is_wrong(clock: Clock) -> None:
    outage = Outage(clock, 1.0)
    with pytest.raises(ClusterUnreachable, match="nobody answers"):
        patience.patiently(outage)
    assert (outage.calls, clock.now) == (1, 1000.0)


@pytest.mark.parametrize("seconds", [0.0, 0.4, 20.0, 110.0])
def test_an_outage_that_ends_costs_a_wait(clock: Clock, seconds: float) -> None:
    patience.be_patient(120)
    assert patience.patiently(Outage(clock, seconds)) == "done"
    assert 1000.0 + seconds <= clock.now <= 1000.0 + seconds + 5.0


def test_patience_has_an_end(clock: Clock) -> None:
    patience.be_patient(120)
    outage = Outage(clock, 1e9)
    with pytest.raises(ClusterUnreachable):
        patience.patiently(outage)
    assert 1110.0 <= clock.now <= 1120.0
    assert outage.calls < 40


def test_another_error_is_not_waited_for(clock: Clock) -> None:
    def missing() -> None:
        raise NotFound("no such file")

    patience.be_patient(120)
    with pytest.raises(NotFound):
        patience.patiently(missing)
    assert clock.now == 1000.0


def test_a_caller_may_have_a_patience_of_its_own(clock: Clock) -> None:
    assert patience.patiently(Outage(clock, 800.0), 900.0) == "done"
    assert 1800.0 <= clock.now <= 1805.0

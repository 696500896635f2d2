"""Clock of the training's steps: an age in time is one in steps. No TensorFlow here."""

from collections.abc import Iterable
from itertools import pairwise

#: Ticks are thinned out above this; what is left of a minute's ticks over ten years is below.
MOST_TICKS = 512
#: An age of two weeks is known to within a day.
GAPS_OF_AGE = 16

Ticks = tuple[tuple[float, int], ...]


class StepClock:
    """Ticks with each checkpoint; goes on in the next process, generation and, by a warm start, the next job."""

    def __init__(self, ticks: Iterable[tuple[float, int]] = ()) -> None:
        """`ticks`: (seconds since 1970, step), old to new."""
        self._ticks = list(ticks)

    @property
    def ticks(self) -> Ticks:
        """What the next one begins with."""
        return tuple(self._ticks)

    def tick(self, now: float, step: int) -> None:
        """It is `now`, and so many steps were made."""
        if self._ticks and now <= self._ticks[-1][0]:
            return  # the clock of another machine was ahead
        self._ticks.append((now, step))
        if len(self._ticks) > MOST_TICKS:
            self._ticks = _thin_ticks(self._ticks)

    def step_at(self, time: float) -> int:
        """The last step that is known to have been made by then; 0 before all ticks."""
        return max((step for when, step in self._ticks if when <= time), default=0)


def _thin_ticks(ticks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The first, the last, and of the others so many that no gap is longer than a part of its age."""
    now, kept = ticks[-1][0], ticks[:1]
    for tick, following in pairwise(ticks[1:]):
        if following[0] - kept[-1][0] > (now - following[0]) / GAPS_OF_AGE:
            kept.append(tick)
    return [*kept, ticks[-1]]

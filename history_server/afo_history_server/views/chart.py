"""Curves as geometry: a page draws them without a script. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

#: The drawing's size, and its margins for the words beside and below the axes.
WIDTH, HEIGHT = 420.0, 180.0
#: Of values that are drawn: the largest, and the least difference of two that is one.
_LARGEST, _LEAST = 1e150, 1e-150
LEFT, RIGHT, TOP, BOTTOM = 56.0, 8.0, 10.0, 24.0
#: Points of a line whose values a reader can point at.
_POINTED = 60

Value = tuple[float, float | None]
Words = Callable[[float], str]
Step = Callable[[float], float]
#: Parts of an axis, at most.
_TICKS = 4
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TIME_STEPS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
               *(hours * _HOUR for hours in (1, 2, 3, 6, 12)))  # fmt: skip


class Tick(Struct, frozen=True):
    """A place on an axis, and what is written there."""

    at: float
    text: str


class Spot(Struct, frozen=True):
    """A point that tells its values."""

    x: float
    y: float
    text: str


class Line(Struct, frozen=True):
    """One curve: an SVG path, some of its points, and its newest value in words."""

    name: str
    path: str
    spots: tuple[Spot, ...]
    newest: str


class Chart(Struct, frozen=True):
    """Curves over one axis of x; `marks` are upright lines."""

    title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[float, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def round_step(rough: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def time_step(rough: float) -> float:
    """Of seconds: the least part of a clock's or calendar's round that is not below `rough`."""
    return next((step for step in _TIME_STEPS if step >= rough), 0) or round_step(rough / _DAY) * _DAY


def chart(
    title: str, lines: Mapping[str, Sequence[Value]], x_words: Words, y_words: Words, marks: Iterable[float] = (),
    x_step: Step = round_step,
) -> Chart | None:  # fmt: skip
    """None where there is nothing to draw. A point without a value, or with one beyond `_LARGEST`, is a gap.

    `x_step` says how far apart the ticks of the lower axis are that may not be closer than its argument.
    """
    known = {name: [(x, y) for x, y in values if _is_drawable(y)] for name, values in lines.items()}
    points = [(x, y) for values in known.values() for x, y in values if y is not None]
    if not points:
        return None
    x_axis = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    drawn = (
        _line(name, values, x_axis, y_axis, lambda x, y: f"{x_words(x)}: {y_words(y)}", y_words)
        for name, values in lines.items()
        if known[name]
    )
    return Chart(
        title=title, lines=tuple(drawn),
        x_ticks=x_axis.ticks(x_words, x_step), y_ticks=y_axis.ticks(y_words, round_step),
        marks=tuple(x_axis.place(mark) for mark in marks if x_axis.low <= mark <= x_axis.high),
    )  # fmt: skip


def _is_drawable(value: float | None) -> bool:
    return value is not None and abs(value) <= _LARGEST  # NaN is not


class _Axis:
    """Values between `low` and `high` lie between two places of the drawing."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self.low, self.high = min(values), max(values)
        if self.high - self.low < _LEAST:
            half = abs(self.low) / 10
            self.low, self.high = self.low - half, self.high + (half if half > _LEAST else 1.0)
        self._first, self._last = first, last

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self._first + share * (self._last - self._first), 1)

    def ticks(self, words: Words, next_step: Step) -> tuple[Tick, ...]:
        """Round values."""
        step = next_step((self.high - self.low) / _TICKS)
        first = math.ceil(self.low / step)
        values = (step * number for number in range(first, math.floor(self.high / step) + 1))
        return tuple(Tick(self.place(value), words(value)) for value in values)


def _line(
    name: str, values: Sequence[Value], x_axis: _Axis, y_axis: _Axis, both: Callable[[float, float], str], words: Words
) -> Line:
    path, spots, pen = [], [], "M"
    for x, y in values:
        if y is None or not _is_drawable(y):
            pen = "M"
            continue
        place = x_axis.place(x), y_axis.place(y)
        path.append(f"{pen}{place[0]:g} {place[1]:g}")
        spots.append(Spot(*place, both(x, y)))
        pen, newest = "L", words(y)
    every = -(-len(spots) // _POINTED)
    return Line(name, "".join(path), tuple(spots[::-1][::every]), newest)

"""Curves stay in their drawing and say what they show; long series stay within their bound."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo_history_server.model.downsample import Downsampled
from afo_history_server.views.chart import Chart, Value, chart, round_step, time_step

NUMBERS = st.floats(-1e12, 1e12)


def draw(values: list[Value], marks: tuple[float, ...] = ()) -> Chart | None:
    return chart("a curve", {"a": values}, "x{:g}".format, "y{:g}".format, marks)


@given(st.lists(st.tuples(NUMBERS, st.none() | st.floats(-1e12, 1e12) | st.just(math.nan)), max_size=300))
def test_all_of_it_lies_within_its_axes(values: list[Value]) -> None:
    drawn = draw(values)
    known = [y for _, y in values if y is not None and math.isfinite(y)]
    if drawn is None:
        assert not known
        return
    [line] = drawn.lines
    places = [tuple(map(float, each.split())) for each in re.findall(r"[ML]([^ML]+)", line.path)]
    assert len(places) == len(known)
    assert all(drawn.left <= x <= drawn.right and drawn.top <= y <= drawn.bottom for x, y in places)
    assert line.newest == f"y{known[-1]:g}"
    assert len(line.spots) <= 60
    assert len(drawn.x_ticks) <= 6
    assert len(drawn.y_ticks) <= 6


def test_a_gap_is_not_drawn_over() -> None:
    drawn = draw([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)])
    assert drawn is not None
    assert re.sub(r"[^ML]", "", drawn.lines[0].path) == "MLM"


def test_higher_is_further_up_and_later_further_right() -> None:
    drawn = draw([(0, 1.0), (10, 2.0)], marks=(5.0, 11.0))
    assert drawn is not None
    assert drawn.lines[0].path == f"M{drawn.left:g} {drawn.bottom:g}L{drawn.right:g} {drawn.top:g}"
    assert drawn.marks == ((drawn.left + drawn.right) / 2,), "one is outside"
    assert [tick.text for tick in drawn.x_ticks] == ["x0", "x5", "x10"]
    assert [spot.text for spot in drawn.lines[0].spots] == ["x10: y2", "x0: y1"]


@given(st.floats(1e-9, 1e9))
def test_steps_are_round_and_not_too_small(rough: float) -> None:
    step = round_step(rough)
    assert rough * 0.999 <= step <= rough * 2.51
    assert f"{step:e}"[0] in "125"
    assert time_step(rough) >= min(rough, 1.0) * 0.999


@pytest.mark.parametrize(
    ("rough", "step"), [(0.1, 1), (7, 10), (31, 60), (1000, 1800), (2000, 3600), (5e4, 86400), (1e5, 172800)]
)
def test_steps_of_time_are_parts_of_a_clock(rough: float, step: float) -> None:
    assert time_step(rough) == step


@given(st.integers(1, 20), st.integers(0, 500))
def test_a_long_series_keeps_its_ends_and_its_spread(limit: int, length: int) -> None:
    series: Downsampled[int] = Downsampled(limit)
    for number in range(length):
        series.add(number)
    kept = series.items()
    assert len(kept) == min(length, len(kept)) <= limit + 1
    assert list(kept[:1] + kept[-1:]) == ([0, length - 1] if length else [])
    apart = {after - before for before, after in pairwise(kept[:-1])}
    assert len(apart) <= 1, "evenly spread, but for the newest"


@pytest.mark.parametrize("values", [(0.5, 1e308, -1e308), (1.79e308,), (5e-324, 0.0), (1e150, -1e150), (1e-320,)])
def test_any_number_that_a_job_says_can_be_drawn_or_is_a_gap(values: tuple[float, ...]) -> None:
    drawn = draw([(float(x), y) for x, y in enumerate(values)])
    assert (drawn is None) == all(abs(y) > 1e150 for y in values)

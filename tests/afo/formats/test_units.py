"""Quantities: how often something is to be done, and bounds of a metric."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.errors import SpecError
from afo.formats.units import Bound, Interval


@pytest.mark.parametrize(
    ("written", "text", "numbers"),
    [
        ("10m", "10m", (600.0, None, None, None)),
        ("90s", "1m30s", (90.0, None, None, None)),
        ("2000 steps", "2000 steps", (None, 2000, None, None)),
        (" 1 step ", "1 step", (None, 1, None, None)),
        ("500000 samples", "500000 samples", (None, None, 500_000, None)),
        ("0.25 epochs", "0.25 epochs", (None, None, None, 0.25)),
        ("1e9samples", "1000000000 samples", (None, None, 10**9, None)),
    ],
)
def test_as_users_write_it(written: object, text: str, numbers: tuple[float | None, ...]) -> None:
    every = Interval.parse(written)
    assert every == text
    assert (every.seconds, every.steps, every.samples, every.epochs) == numbers
    assert Interval.parse(str(every)) == every


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("0 steps", "above 0"), ("1.5 steps", "a whole number"), ("0.5 samples", "a whole number"),
        ("0 epochs", "a number above 0"), ("9e99 epochs", "at most 1e15"), ("-5 steps", "or '2000 steps'"),
        ("5 rounds", "or '2000 steps'"), ("", "or '2000 steps'"), (None, "or '2000 steps'"), (True, "or '2000 steps'"),
        ("9" * 400 + " steps", "at most 1e15"), ("1e400 epochs", "at most 1e15"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(written: object, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        Interval.parse(written)


@pytest.mark.parametrize("written", [0.5, "0.5", " 0.5 ", 5, "5", 0])
def test_a_number_without_a_unit_is_refused_with_those_that_there_are(written: object) -> None:
    number = str(written).strip()
    with pytest.raises(SpecError, match=rf"has no unit; write '{number}m' or .* or .*'{number} epochs'") as error:
        Interval.parse(written)
    assert ("steps" in str(error.value)) == ("." not in number), "half a step is none"


@given(st.text(alphabet="0123456789. estpochaml+-", max_size=20) | st.integers() | st.floats())
def test_any_value_is_read_or_refused(written: object) -> None:
    try:
        every = Interval.parse(written)
    except SpecError:
        return
    assert sum(each is not None for each in (every.seconds, every.steps, every.samples, every.epochs)) == 1
    assert Interval.parse(str(every)) == every


@given(st.integers(1, 50), st.lists(st.integers(1, 30), max_size=30))
def test_each_multiple_is_passed_once(number: int, steps: list[int]) -> None:
    every, at, passed = Interval.parse(f"{number} steps"), 0, 0
    for more in steps:
        passed += every.is_passed(at, at + more)
        at += more
    multiples = {at // number for at in [sum(steps[:end]) for end in range(len(steps) + 1)]}
    assert passed == len(multiples) - 1
    assert Interval("10m").is_passed(5, 5)


def test_what_counts_of_steps_that_are_saved_in_between_or_again() -> None:
    every = Interval.parse("100 steps")
    assert [*every.passing(0, (50, 101, 150, 199, 200, 250, 301))] == [False, True, False, False, True, False, True]
    assert [*every.passing(301, (120, 150, 205))] == [True, False, True], "after a return to a checkpoint"
    assert [*Interval("10m").passing(7, (8, 8, 3))] == [True, True, True]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=0.74", [0.74, 1.0], [0.7399, math.nan]),
        ("<= 1e-1", [0.1, -3.0], [0.11]),
        ("0.9..1.1", [0.9, 1.0, 1.1], [0.89, 1.11]),
        ("-1 .. -.5", [-0.75], [0.0]),
    ],
)
def test_a_bound_is_a_closed_interval(text: str, inside: list[float], outside: list[float]) -> None:
    bound = Bound.parse(text)
    assert all(bound.holds(value) for value in inside)
    assert not any(bound.holds(value) for value in outside)


@pytest.mark.parametrize("text", ["", "0.74", ">0.74", "=>1", ">= one", "1.1..0.9", "0.9...1.1", ">=0.7; <=1"])
def test_what_is_no_bound_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"no bound; write '>=0\.74'|holds no number"):
        Bound.parse(text)

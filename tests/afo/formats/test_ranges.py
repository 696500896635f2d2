"""Bounds: what they are, and how they are written."""

import math

import pytest
from afo.formats.units import Bound


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

"""Divisions of numbers that a job says of itself, which may be any."""


def ratio(number: float, by: float) -> float:
    """`number / by`; infinite where that is beyond what a float holds, 0 where `by` is 0."""
    try:
        return number / by if by else 0.0
    except OverflowError:
        return float("inf")


def as_float(number: float) -> float:
    """A number as a float, infinite where it is beyond what one holds."""
    try:
        return float(number)
    except OverflowError:
        return float("-inf" if number < 0 else "inf")

"""Bounds of numbers as the job file writes them: `>=0.74`, `<=0.1`, `0.9..1.1`. Pure."""

import math
import re
from dataclasses import dataclass

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ONE_SIDED = re.compile(rf"(>=|<=)\s*({_NUMBER})")
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")


@dataclass(frozen=True)
class Bound:
    """A closed interval; an open side is infinite. `text` is how it was written."""

    least: float
    most: float
    text: str

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Raises `ValueError` (so that msgspec names the place) for a text of another form, or an empty range."""
        stripped = text.strip()
        if match := _ONE_SIDED.fullmatch(stripped):
            value = float(match[2])
            return cls(value, math.inf, stripped) if match[1] == ">=" else cls(-math.inf, value, stripped)
        if match := _RANGE.fullmatch(stripped):
            bound = cls(float(match[1]), float(match[2]), stripped)
            if bound.least <= bound.most:
                return bound
            raise ValueError(f"{text!r} holds no number: its first is above its second")
        raise ValueError(f"{text!r} is no bound; write '>=0.74', '<=0.1' or '0.9..1.1'")

    def holds(self, value: float) -> bool:
        """Whether `value` lies within; no number (NaN) does."""
        return self.least <= value <= self.most

"""Whether two ways to train reach the same AUC: paired differences, their confidence interval, a margin.

Two one-sided tests (Schuirmann, 1987) at 5 % each say the same as: the 90 % interval of the mean difference lies inside
of the margin.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: 95 % quantile of Student's t by degrees of freedom, from 1.
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833)


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences and its 90 % confidence interval."""

    mean: float
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Whether both one-sided tests reject a difference as large as the margin."""
        return -margin < self.low and self.high < margin


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """`second` less `first`, of 2 to 10 pairs."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean = statistics.mean(differences)
    half = _T95[len(differences) - 2] * statistics.stdev(differences) / math.sqrt(len(differences))
    return Difference(mean, mean - half, mean + half)

"""How large a benchmark is: as it is meant, or with its smallest numbers (`AFO_BENCH_SMALLEST=1`), which mean nothing.

With the smallest numbers every benchmark passes through all that it does within seconds, and no bar is judged. The
variable reaches the processes that a benchmark starts. Only the standard library is needed, for peers import this, too.
"""

import os
from typing import TypeVar

T = TypeVar("T")

SMALLEST = os.environ.get("AFO_BENCH_SMALLEST", "") == "1"


def sized(meant: T, smallest: T) -> T:
    """One of the two numbers."""
    return smallest if SMALLEST else meant

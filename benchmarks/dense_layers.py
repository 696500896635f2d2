"""The hidden layers of Wide & Deep, the same in every process. Only numpy is needed, for peers import this, too."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: Ten rows of 16 and five dense values; two layers and the output.
WIDTHS = (165, 128, 64, 1)
CANDIDATES = (1, 50, 500)


def weights() -> list[tuple[Any, Any]]:
    """Kernel and bias of each layer."""
    random = np.random.default_rng(1)
    return [
        (random.normal(0, 0.1, (before, after)).astype(np.float32), random.normal(0, 0.1, after).astype(np.float32))
        for before, after in itertools.pairwise(WIDTHS)
    ]


def inputs(count: int) -> Any:
    """Of so many candidates, float32 [count, 165]."""
    return np.random.default_rng(2).normal(size=(count, WIDTHS[0])).astype(np.float32)


def core_seconds(calls: int, call: Callable[[], object]) -> list[float]:
    """Processor time of each of `calls` calls."""
    seconds = []
    for _ in range(calls):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return seconds

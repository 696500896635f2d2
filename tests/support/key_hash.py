"""A key's slot, computed apart from the engine (afo/core/hash.h)."""

from typing import Any

import numpy as np


def slots_of(keys: Any) -> Any:
    """int64 [n]."""
    mixed = np.asarray(keys, np.int64).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ mixed >> np.uint64(31)) >> np.uint64(48)).astype(np.int64)

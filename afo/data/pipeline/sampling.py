"""Negative sampling by a hash of the sample id, so the same ones in every epoch and every process."""

import numpy as np
from numpy.typing import NDArray

from afo.job import NegativeSampling

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_INCREMENT = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def kept(
    labels: NDArray[np.float32], identity: NDArray[np.int64], sampling: NegativeSampling, seed: int
) -> NDArray[np.bool_]:
    """Which of B samples are trained on: all with a positive label, of the others a share.

    `labels` [B, labels]; `identity` [B] are hashed sample ids, which `seed` hashes once more.
    """
    drawn = _mixed(identity.view(np.uint64) ^ np.uint64((seed + 1) * _INCREMENT & _MASK))
    # 53 bits are what a float64 holds exactly.
    share = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (labels > 0).any(axis=1) | (share < sampling.keep)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed

"""The load that all sides of the benchmark of embedding tables share: numpy and the standard library alone.

A table holds rows 0 to n-1, and the key of a row is a scrambled int64. Batches draw rows by Zipf's law, the more
frequent ones spread over the table at random. A table of keys is loaded in the order of its rows, so that no side has
its frequent rows closer to each other than another side has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

KEYS = 10_000_000
DIM = 16
BATCH, FIELDS = 4096, 26
IDS = BATCH * FIELDS
EXPONENT = 1.05
#: New keys of one call that inserts.
FRESH = 100_000
#: What a row of weights and two slots takes with its key: (3 * 16 + 4) * 4 bytes.
BYTES_A_KEY = 208

Int64s = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Ids of 4096 samples of 26 fields: `ids` as they come, `unique_ids` each once, as they first appear."""

    rows: Int64s
    unique_rows: Int64s
    inverse: NDArray[np.int32]

    @property
    def ids(self) -> Int64s:
        """Keys of all ids, with repetitions."""
        return keys_of(self.rows)

    @property
    def unique_ids(self) -> Int64s:
        """Keys of the different ids; `unique_ids[inverse]` are the ids."""
        return keys_of(self.unique_rows)


def keys_of(rows: Int64s) -> Int64s:
    """The key of each row: a bijection of 64-bit integers (the finalizer of SplitMix64), so that no two are equal."""
    mixed = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)


def all_keys(keys: int = KEYS, chunk: int = 500_000) -> Iterator[Int64s]:
    """The keys of rows 0 to `keys`, in that order, in pieces."""
    for begin in range(0, keys, chunk):
        yield keys_of(np.arange(begin, min(begin + chunk, keys), dtype=np.int64))


def fresh_keys(calls: int, each: int = FRESH) -> list[Int64s]:
    """Keys that no table was loaded with, none twice."""
    begin = 1 << 40
    return [keys_of(np.arange(begin + call * each, begin + (call + 1) * each, dtype=np.int64)) for call in range(calls)]


def unused_keys() -> tuple[int, int]:
    """Two keys that are never in a load, for tables that mark free and deleted places by a key."""
    first, second = keys_of(np.arange(1 << 50, (1 << 50) + 2, dtype=np.int64))
    return int(first), int(second)


def batches(count: int, seed: int, keys: int = KEYS) -> list[Batch]:
    """Batches of rows by Zipf's law over `keys` ranks; every rank is a row at random."""
    random = np.random.default_rng(seed)
    weights = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -EXPONENT)
    row_of_rank = np.random.default_rng(0).permutation(keys)
    drawn = np.searchsorted(weights, random.random((count, IDS)) * weights[-1])
    return [_batch(row_of_rank[np.minimum(ranks, keys - 1)].astype(np.int64)) for ranks in drawn]


def _batch(rows: Int64s) -> Batch:
    """A batch with its different rows, in the order of their first appearance as `tf.unique` has them."""
    different, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Batch(rows, different[order], place[inverse].astype(np.int32))


@lru_cache(maxsize=4)
def gradients(count: int, seed: int = 1) -> Floats:
    """Gradients of `count` rows, small enough that hours of steps stay finite."""
    return np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32) * np.float32(1e-3)

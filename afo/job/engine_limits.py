"""Limits of the engine's tables: the bounds of the job file and of the Python interface."""

#: Width of a row: `kMaxDim` of afo/core/optimizer.h.
MOST_DIM = 4096
#: Times that a key is met, counted exactly: `kMaxFrequency` of afo/core/row_store.h.
MOST_COUNT = (1 << 24) - 1
#: The same in a counting Bloom filter: `kMaxBloomCount` of afo/core/counting_bloom.h.
MOST_BLOOM_COUNT = 255
#: Of a Bloom filter: keys that it is made for, and the least share of them that it takes for others.
MOST_KEYS, LEAST_CHANCE = 10**12, 1e-9
#: Below `kFreeStep` of afo/core/row_store.h.
MOST_STEPS = (1 << 32) - 2

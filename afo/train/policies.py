"""What a job says of its hash tables' keys, as the engine's tables take it."""

import msgspec

from afo.embedding.policies import Eviction, Filter
from afo.job import Embedding


def filter_of(embedding: Embedding) -> Filter:
    """Which keys get a row."""
    return Filter(**msgspec.structs.asdict(embedding.filter))


def eviction_of(embedding: Embedding) -> Eviction:
    """Which rows go at a checkpoint; `unused_time` is the chief's, who knows the steps of that time."""
    evict = embedding.evict
    return Eviction(evict.unused_steps, evict.l2_weight, evict.capacity)

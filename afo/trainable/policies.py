"""What a job says of its hash tables' keys, as the engine's tables take it."""

import msgspec

from afo.embedding.policies import Eviction
from afo.embedding.policies import Filter as KeyFilter
from afo.job import Evict, Filter


def filter_of(section: Filter) -> KeyFilter:
    """Which keys get a row."""
    return KeyFilter(**msgspec.structs.asdict(section))


def eviction_of(section: Evict) -> Eviction:
    """Which rows go at a checkpoint."""
    return Eviction(**msgspec.structs.asdict(section))

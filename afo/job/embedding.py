"""The section `model.embedding`."""

from typing import Annotated, Literal

from msgspec import Meta

from afo.job.section import PositiveInt, Section
from afo.table_bounds import LEAST_CHANCE, MOST_BLOOM_COUNT, MOST_COUNT, MOST_KEYS, MOST_STEPS
from afo.units import Duration

Buckets = Annotated[int, Meta(ge=2)]


class Filter(Section, frozen=True):
    """Which keys get a row in a hash table. Of a key without one nothing is learned: it has the default value."""

    min_count: Annotated[
        int, Meta(ge=1, le=MOST_COUNT, description="So often training meets a key before it has a row.")
    ] = 1
    probability: Annotated[
        float, Meta(gt=0, le=1, description="Or: the chance with which each time that it is met gives it a row.")
    ] = 1.0
    default_value: Annotated[
        float, Meta(description="All embedding weights of a key without a row. Of `wide_deep`, linear weights are 0.")
    ] = 0.0

    max_element_size: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST_KEYS,
            description="Count by a counting Bloom filter for so many keys a table: its memory is fixed. 0: exactly.",
        ),
    ] = 0
    false_positive_probability: Annotated[
        float,
        Meta(ge=LEAST_CHANCE, lt=1, description="Share of keys that this filter takes for others, once it is full."),
    ] = 0.01

    def __post_init__(self) -> None:
        if self.min_count > 1 and self.probability < 1:
            raise ValueError("`min_count` or `probability`, not both")
        if self.max_element_size and not 1 < self.min_count <= MOST_BLOOM_COUNT:
            raise ValueError(
                f"with `max_element_size`, `min_count` must be 2 to {MOST_BLOOM_COUNT}, not {self.min_count}"
            )


class Evict(Section, frozen=True):
    """Which rows of a hash table are removed at each checkpoint: those that any of these names."""

    unused_steps: Annotated[
        int, Meta(ge=0, le=MOST_STEPS, description="No update for more steps than this. 0: not by this.")
    ] = 0
    unused_time: Annotated[
        Duration | None, Meta(description="The same for longer than this, over warm starts, e.g. `14d`.")
    ] = None
    l2_weight: Annotated[
        float, Meta(ge=0, description="The squares of the weights sum to less than this. 0: not by this.")
    ] = 0.0
    capacity: Annotated[
        int, Meta(ge=0, description="Rows of each table, about; the longest unused go. 0: no bound.")
    ] = 0


class Embedding(Section, frozen=True):
    """Embedding tables of the deep part."""

    dim: PositiveInt = 16
    storage: Annotated[
        Literal["dense", "hash_table"],
        Meta(description="`hash_table`: a row for each key that training meets. `dense`: `hash_buckets`."),
    ] = "hash_table"
    hash_buckets: Annotated[
        Buckets | None,
        Meta(
            description="Rows per feature where the schema says nothing. Left out: 100,000; of `hash_table` no bound."
        ),
    ] = None
    #: Of `hash_table`, whatever the model; the linear weights of `wide_deep` too.
    filter: Filter = Filter()
    evict: Evict = Evict()

    def __post_init__(self) -> None:
        if self.storage != "hash_table" and (self.filter != Filter() or self.evict != Evict()):
            raise ValueError("`filter` and `evict` are for `storage: hash_table`; leave them out")

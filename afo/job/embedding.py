"""The section `model.embedding`, and the limits of the engine's tables: those of the Python interface as well."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.formats.units import Duration
from afo.job import combinations
from afo.job.combinations import check_combinations
from afo.job.section import LEAST_CHANCE, MOST_COUNT, MOST_DIM, MOST_KEYS, MOST_STEPS, Section, check_ranges

Buckets = Annotated[int, Meta(ge=2, le=MOST_KEYS)]


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

    @property
    def is_open(self) -> bool:
        """Whether every key is admitted at once."""
        return self.min_count == 1 and self.probability == 1

    def __post_init__(self) -> None:
        check_ranges(self)
        check_combinations(self, combinations.FILTER)


class Eviction(Section, frozen=True):
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
        int, Meta(ge=0, le=MOST_KEYS, description="Rows of each table, about; the longest unused go. 0: no bound.")
    ] = 0

    def __post_init__(self) -> None:
        check_ranges(self)


Pooling = Literal["auto", "servers", "workers"]
Wire = Literal["float32", "bfloat16"]


class FeatureTables(Section, frozen=True):
    """What holds for the hash tables of one feature of `wide_deep` in place of what is said for all."""

    filter: Filter | None = None
    evict: Eviction | None = None
    pooling: Annotated[
        Pooling | None, Meta(description="Of a feature with many values a sample. Left out: as that of all.")
    ] = None


class Embedding(Section, frozen=True):
    """Embedding tables of the deep part."""

    dim: Annotated[int, Meta(ge=1, le=MOST_DIM)] = 16
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
    #: The rest is of `hash_table`, whatever the model; the first two of the linear weights of `wide_deep` too.
    filter: Filter = Filter()
    evict: Eviction = Eviction()
    pooling: Annotated[
        Pooling,
        Meta(
            description="Where the rows of a feature with many values a sample are summed: `servers` send a sum a "
            "sample, to `workers` come the rows. `auto`: on the servers where that is far fewer."
        ),
    ] = "auto"
    wire: Annotated[
        Wire,
        Meta(
            description="What embeddings and their gradients are on the network. `bfloat16` halves them; servers "
            "compute and keep float32, linear weights stay float32."
        ),
    ] = "float32"
    features: Annotated[
        dict[str, FeatureTables], Meta(description="Of `wide_deep`: features of the schema with settings of their own.")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_combinations(self, combinations.EMBEDDING)

    def filter_of(self, feature: str) -> Filter:
        """Which keys of a feature get a row."""
        own = self.features.get(feature, _AS_ALL).filter
        return self.filter if own is None else own

    def evict_of(self, feature: str) -> Eviction:
        """Which rows of a feature are removed."""
        own = self.features.get(feature, _AS_ALL).evict
        return self.evict if own is None else own

    def pooling_of(self, feature: str) -> Pooling:
        """Where a feature's rows are summed."""
        return self.features.get(feature, _AS_ALL).pooling or self.pooling


_AS_ALL = FeatureTables()

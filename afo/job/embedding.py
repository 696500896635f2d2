"""The section `model.embedding`, and the limits of the engine's tables: those of the Python interface as well."""

from typing import Annotated, Literal

from msgspec import Meta, field

from afo.formats.units import Duration
from afo.job import combinations
from afo.job.combinations import check_combinations
from afo.job.section import LEAST_CHANCE, MOST_COUNT, MOST_DIM, MOST_KEYS, MOST_STEPS, Section, check_ranges

Buckets = Annotated[int, Meta(ge=2, le=MOST_KEYS)]


class Filter(Section, frozen=True):
    """Admission filter: the keys that get a row in a hash table. A key without a row keeps the default value."""

    min_count: Annotated[
        int, Meta(ge=1, le=MOST_COUNT, description="Occurrences of a key in training before it gets a row.")
    ] = 1
    probability: Annotated[
        float, Meta(gt=0, le=1, description="Or: the chance that one occurrence gives a key a row.")
    ] = 1.0
    default_value: Annotated[
        float, Meta(description="All embedding weights of a key without a row. Linear weights of `wide_deep` are 0.")
    ] = 0.0

    max_element_size: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST_KEYS,
            description="Count with a counting Bloom filter for so many keys per table, in fixed memory. 0: exactly.",
        ),
    ] = 0
    false_positive_probability: Annotated[
        float,
        Meta(
            ge=LEAST_CHANCE, lt=1, description="Share of keys that this filter confuses with others, once it is full."
        ),
    ] = 0.01

    @property
    def is_open(self) -> bool:
        """Whether every key is admitted at once."""
        return self.min_count == 1 and self.probability == 1

    def __post_init__(self) -> None:
        check_ranges(self)
        check_combinations(self, combinations.FILTER)


class Eviction(Section, frozen=True):
    """The rows of a hash table that are evicted at each checkpoint: those that meet any of these conditions."""

    unused_steps: Annotated[
        int, Meta(ge=0, le=MOST_STEPS, description="No update for more steps than this. 0: off.")
    ] = 0
    unused_time: Annotated[
        Duration | None, Meta(description="No update for longer than this, across warm starts, e.g. `14d`.")
    ] = None
    l2_weight: Annotated[float, Meta(ge=0, description="The squares of the weights sum to less than this. 0: off.")] = (
        0.0
    )
    capacity: Annotated[
        int, Meta(ge=0, le=MOST_KEYS, description="Approximate rows of each table; the longest unused go. 0: no bound.")
    ] = 0

    def __post_init__(self) -> None:
        check_ranges(self)


Pooling = Literal["auto", "servers", "workers"]
Wire = Literal["float32", "bfloat16"]
ValueDtype = Literal["float32", "bfloat16"]


class FeatureTables(Section, frozen=True):
    """Settings for the hash tables of one feature of `wide_deep`, in place of the common ones."""

    filter: Filter | None = None
    evict: Eviction | None = None
    pooling: Annotated[
        Pooling | None, Meta(description="For a feature with many values per sample. Left out: the common one.")
    ] = None


class Embedding(Section, frozen=True):
    """Embedding tables of the deep part."""

    dim: Annotated[int, Meta(ge=1, le=MOST_DIM)] = 16
    storage: Annotated[
        Literal["dense", "hash_table"],
        Meta(description="`hash_table`: a row for each key that training meets. `dense`: `hash_buckets` rows."),
    ] = "hash_table"
    hash_buckets: Annotated[
        Buckets | None,
        Meta(description="Rows per feature where the schema sets none. Left out: 100,000; in `hash_table`, no bound."),
    ] = None
    #: The rest is of `hash_table`, whatever the model; the first two of the linear weights of `wide_deep` too.
    filter: Filter = Filter()
    evict: Eviction = Eviction()
    pooling: Annotated[
        Pooling,
        Meta(
            description="Where the rows of a feature with many values per sample are summed: `servers` send one sum "
            "per sample, `workers` receive the rows. `auto`: on the servers where that sends far less."
        ),
    ] = "auto"
    wire: Annotated[
        Wire,
        Meta(
            description="Format of embeddings and their gradients on the network. `bfloat16` halves their bytes; "
            "servers compute in float32, linear weights stay float32."
        ),
    ] = "float32"
    value_dtype: Annotated[
        ValueDtype,
        Meta(
            description="Format of embeddings in the memory of the servers. `bfloat16` halves the bytes of the "
            "weights, which updates round up or down by chance; optimizer slots, checkpoints and linear weights stay "
            "float32."
        ),
    ] = "float32"
    features: Annotated[
        dict[str, FeatureTables], Meta(description="For `wide_deep`: features of the schema with their own settings.")
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

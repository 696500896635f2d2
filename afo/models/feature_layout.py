"""Layout of a Wide & Deep model: which feature is which row of which table; without TensorFlow.

All embeddings are rows of one table and all linear weights rows of another, so that a step asks each parameter server
once, whatever the number of features. The first rows of both belong to the same ids: a feature's `offset` counts in
both tables, and the crosses follow in the linear one alone. With hash tables (`Layout.hashed`) each feature has one of
its own for its embeddings and one for its linear weights, and each cross one; the engine asks for all of them at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Literal

from afo.data.feature import Combiner, Feature, Scalar
from afo.data.schema import Schema, nearest
from afo.errors import SpecError
from afo.job import Model

#: Rows of a feature, or of a cross, in a dense table.
DEFAULT_BUCKETS = 100_000


@dataclass(frozen=True)
class Pooling:
    """How a list of values becomes one: values equal to `padding` count for nothing, the others by `weights`."""

    combiner: Combiner
    padding: Scalar
    #: Feature that holds a weight for each value; empty: all weigh 1.
    weights: str = ""


@dataclass(frozen=True)
class Sparse:
    """A feature that is looked up: `values` ids a sample, each one of `buckets` rows.

    hash       64-bit hash of the value modulo buckets; of 0 buckets the value, or the fingerprint of a string
    vocabulary place in `vocabulary`, the last bucket for all others
    boundaries how many of `boundaries` are at most the value of a dense feature

    `Layout.sparse` holds them in this order, so that all hashed ones are one operation.
    """

    feature: str
    how: Literal["hash", "vocabulary", "boundaries"]
    is_string: bool
    buckets: int
    values: int = 1
    vocabulary: tuple[int | str, ...] = ()
    boundaries: tuple[float, ...] = ()
    #: Of a feature with a `max_length`; None: all values count, the deep part takes their mean and the wide their sum.
    pooling: Pooling | None = None


@dataclass(frozen=True)
class Cross:
    """The combination of features; `columns` are indices into `Layout.sparse`. 0 buckets: no bound."""

    columns: tuple[int, ...]
    buckets: int


@dataclass(frozen=True)
class Dense:
    """A numeric feature of `width` inputs a sample; a list of values is pooled into one.

    In this order: NaN becomes `stand_in`, values are clipped, `log1p` is taken. With a `stand_in` one more input says
    1 where the value was NaN, else 0.
    """

    feature: str
    width: int = 1
    pooling: Pooling | None = None
    clip: tuple[float, float] | None = None
    log1p: bool = False
    stand_in: float | None = None

    @property
    def transforms(self) -> str:
        """What is done to its values, in words; empty for nothing."""
        found = [f"clip {self.clip[0]:g} {self.clip[1]:g}"] if self.clip else []
        found += ["log1p"] if self.log1p else []
        return " ".join([*found, "missing"] if self.stand_in is not None else found)


@dataclass(frozen=True)
class Weight:
    """A dense weight: its place in the dense vector."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Tables and weights of one model. At least one of `has_wide` and `has_deep`."""

    sparse: tuple[Sparse, ...]
    crosses: tuple[Cross, ...]
    dense: tuple[Dense, ...]
    hidden_units: tuple[int, ...]
    dim: int
    has_wide: bool
    has_deep: bool
    #: Rows are in hash tables, which grow by what they meet.
    hashed: bool = False
    #: What the hidden layers compute in.
    precision: Literal["float32", "bfloat16"] = "float32"

    #: Spread of the first embeddings.
    embedding_scale = 0.05

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First row of each sparse feature."""
        return _starts([column.buckets for column in self.sparse])

    @cached_property
    def cross_offsets(self) -> tuple[int, ...]:
        """First row of each cross in the linear table."""
        return tuple(self.deep_rows + start for start in _starts([cross.buckets for cross in self.crosses]))

    @cached_property
    def deep_rows(self) -> int:
        """Rows of the embedding table."""
        return sum(column.buckets for column in self.sparse)

    @cached_property
    def wide_rows(self) -> int:
        """Rows of the linear table."""
        return self.deep_rows + sum(cross.buckets for cross in self.crosses)

    @cached_property
    def ids_per_sample(self) -> int:
        """Ids of the sparse features in a sample, crosses not counted."""
        return sum(column.values for column in self.sparse)

    @cached_property
    def has_lists(self) -> bool:
        """Whether some sparse feature has any number of values."""
        return any(column.pooling for column in self.sparse)

    @cached_property
    def dense_width(self) -> int:
        """Dense values of a sample."""
        return sum(column.width for column in self.dense)

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """Dense weights: the bias of the whole model, then kernel and bias of every layer."""
        shapes: list[tuple[str, tuple[int, ...]]] = [("bias", (1,))]
        if self.has_deep:
            widths = [len(self.sparse) * self.dim + self.dense_width, *self.hidden_units]
            for number, (inputs, units) in enumerate(pairwise(widths)):
                shapes += [(f"layer{number}/kernel", (inputs, units)), (f"layer{number}/bias", (units,))]
            shapes.append(("output/kernel", (widths[-1], 1)))
        offsets = _starts([prod(shape) for _, shape in shapes])
        return tuple(Weight(name, shape, offset) for (name, shape), offset in zip(shapes, offsets, strict=True))

    @cached_property
    def cross_names(self) -> tuple[str, ...]:
        """What a person calls each cross."""
        return tuple(" x ".join(self.sparse[column].feature for column in cross.columns) for cross in self.crosses)

    @property
    def deep_tables(self) -> tuple[str, ...]:
        """Names of the hash tables of embeddings, feature by feature; none without a deep part."""
        return tuple(f"deep/{column.feature}" for column in self.sparse) if self.has_deep else ()

    @property
    def wide_tables(self) -> tuple[str, ...]:
        """Names of the hash tables of linear weights, features before crosses; none without a wide part."""
        names = (*(column.feature for column in self.sparse), *self.cross_names)
        return tuple(f"wide/{name}" for name in names) if self.has_wide else ()

    @property
    def dense_size(self) -> int:
        """Values of the dense vector."""
        return sum(weight.size for weight in self.weights)


def _starts(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(accumulate(sizes, initial=0))[: len(sizes)]


def layout_of(schema: Schema, model: Model) -> Layout:
    """The tables and weights of `model` over `schema`.

    Raises SpecError for a cross of what is not there, and for settings of a feature that has no table for them.
    """
    features = [feature for feature in schema.features if feature.name not in schema.weights]
    columns = [_sparse(feature, model) for feature in features if feature.kind != "dense" or feature.buckets]
    order = ("hash", "vocabulary", "boundaries")
    sparse = tuple(sorted(columns, key=lambda column: order.index(column.how)))
    crosses = _crosses(model, sparse)
    _check_settings(model, sparse)
    has_wide, has_deep = model.parts != "deep", model.parts != "wide"
    return Layout(
        sparse=sparse,
        crosses=crosses if has_wide else (),
        dense=tuple(_dense(feature) for feature in features if feature.kind == "dense"),
        hidden_units=model.hidden_units,
        dim=model.embedding.dim,
        has_wide=has_wide,
        has_deep=has_deep,
        hashed=model.embedding.storage == "hash_table",
        precision=model.precision,
    )


def _sparse(feature: Feature, model: Model) -> Sparse:
    how: Literal["hash", "vocabulary", "boundaries"] = "hash"
    buckets = feature.hash_buckets or model.embedding.hash_buckets or _default_buckets(model)
    if feature.kind == "dense":
        how, buckets = "boundaries", len(feature.buckets) + 1
    elif feature.vocab:
        how, buckets = "vocabulary", len(feature.vocab) + 1
    return Sparse(
        feature.name,
        how,
        is_string=feature.kind == "string",
        buckets=buckets,
        values=feature.size,
        vocabulary=feature.vocab,
        boundaries=feature.buckets,
        pooling=_pooling(feature),
    )


def _default_buckets(model: Model) -> int:
    """Buckets where nobody says how many."""
    return 0 if model.embedding.storage == "hash_table" else DEFAULT_BUCKETS


def _dense(feature: Feature) -> Dense:
    pooling = _pooling(feature)
    width = 1 if pooling else feature.size + feature.missing_indicator
    stand_in = float(feature.stand_ins()[0]) if feature.missing_indicator else None
    return Dense(feature.name, width, pooling, feature.clip, feature.transform == "log1p", stand_in)


def _pooling(feature: Feature) -> Pooling | None:
    if feature.max_length is None:
        return None
    return Pooling(feature.combiner, feature.defaults()[0], feature.weights)


def _crosses(model: Model, sparse: tuple[Sparse, ...]) -> tuple[Cross, ...]:
    buckets = model.wide.cross_buckets or _default_buckets(model)
    return tuple(_cross(names, sparse, buckets) for names in model.wide.crosses)


def _cross(names: tuple[str, ...], sparse: tuple[Sparse, ...], buckets: int) -> Cross:
    known = {column.feature: place for place, column in enumerate(sparse)}
    for name in names:
        if name not in known:
            raise SpecError(
                f"`model.wide.crosses`: {list(names)} names `{name}`, which is no categorical, string or bucketised"
                f" feature of the schema; there are: {', '.join(sorted(known))}"
            )
        if sparse[known[name]].values != 1 or sparse[known[name]].pooling:
            raise SpecError(f"`model.wide.crosses`: `{name}` has several values a sample and cannot be crossed")
    if len(names) < 2 or len(set(names)) < len(names):
        raise SpecError(f"`model.wide.crosses`: {list(names)} must name at least two different features")
    return Cross(tuple(known[name] for name in names), buckets)


def _check_settings(model: Model, sparse: tuple[Sparse, ...]) -> None:
    """Raises SpecError where `model.embedding.features` names what has no table, or pools what has one value."""
    known = {column.feature: column for column in sparse}
    for name, own in model.embedding.features.items():
        where = f"$.model.embedding.features.{name}"
        if name not in known:
            raise SpecError(
                f"{where}: `{name}` is no categorical, string or bucketised feature of the schema;"
                f" {nearest(name, sorted(known))}"
            )
        if own.pooling == "servers" and known[name].values == 1:
            raise SpecError(f"{where}.pooling: `{name}` has one value a sample and nothing to pool; leave it out")

"""Map from parts of a model to ranges of tensors, by which another model takes over what it knows.

No TensorFlow here.
"""

import hashlib
from itertools import accumulate

import msgspec
from msgspec import Struct

from afo.models.feature_layout import Cross, Dense, Layout, Sparse, Weight

#: Name of the vector of all dense weights.
DENSE = "dense"
#: Name of the state of Wide & Deep: samples, sums and sums of squares of the dense features.
STATISTICS = "statistics"


class Section(Struct, frozen=True):
    """A contiguous range of a tensor: rows of a table, elements of the dense vector, columns of a state variable.

    The sections of a tensor follow one another and cover all of it.
    """

    tensor: str
    #: What it is in its tensor, e.g. `user` or `layer0/kernel/user`; once in a tensor.
    name: str
    #: What a person knows it by: a feature, a cross, a layer.
    owner: str
    first: int
    count: int
    #: Two sections of the same name hold the same thing if this is equal: how values become rows, and shapes.
    kind: str

    @property
    def place(self) -> str:
        """Where it lies, for a person."""
        return (self.name if self.tensor == DENSE else self.tensor).removesuffix(f"/{self.owner}")


def sections_of(layout: Layout) -> tuple[Section, ...]:
    """The parts of a Wide & Deep model, by feature, cross and layer."""
    found = _hash_tables(layout) if layout.hashed else _dense_tables(layout)
    for weight in layout.weights:
        found += _first_kernel(layout, weight) if weight.name == "layer0/kernel" else [whole_weight(weight)]
    first = 0
    for column in layout.dense:
        found.append(
            Section(STATISTICS, column.feature, column.feature, first, column.width, _with_transforms("sums", column))
        )
        first += column.width
    return tuple(found)


def whole_weight(weight: Weight) -> Section:
    """A dense weight that is kept whole or not at all."""
    owner = weight.name.split("/")[0]
    return Section(DENSE, weight.name, owner, weight.offset, weight.size, _shape(*weight.shape))


def whole_table(name: str, rows: int, width: int) -> Section:
    """A table that is kept whole or not at all."""
    return Section(name, name, name, 0, rows, _shape(rows, width))


def whole_hash_table(name: str, width: int) -> Section:
    """A hash table, whatever it holds."""
    return Section(name, name, name, 0, 1, f"keys x {width}")


def whole_state(name: str, shape: tuple[int, ...]) -> Section:
    """A state variable that is kept whole or not at all."""
    return Section(name, name, name, 0, (1, *shape)[-1], _shape(*shape))


def _dense_tables(layout: Layout) -> list[Section]:
    found = _table_sections(layout, "deep", f" dim {layout.dim}") if layout.has_deep else []
    if layout.has_wide:
        found += _table_sections(layout, "wide", "")
        for cross, name, first in zip(layout.crosses, layout.cross_names, layout.cross_offsets, strict=True):
            found.append(Section("wide", name, name, first, cross.buckets, _cross_kind(layout, cross)))
    return found


def _hash_tables(layout: Layout) -> list[Section]:
    """A section for each table: what has a table of its own is kept whole or not at all."""
    features = [column.feature for column in layout.sparse]
    kinds = [_kind(column) for column in layout.sparse]
    deep = zip(layout.deep_tables, features, kinds, strict=False)
    found = [Section(table, name, name, 0, 1, f"{kind} dim {layout.dim}") for table, name, kind in deep]
    kinds += [_cross_kind(layout, cross) for cross in layout.crosses]
    wide = zip(layout.wide_tables, (*features, *layout.cross_names), kinds, strict=False)
    return found + [Section(table, name, name, 0, 1, kind) for table, name, kind in wide]


def _table_sections(layout: Layout, table: str, suffix: str) -> list[Section]:
    return [
        Section(table, column.feature, column.feature, first, column.buckets, _kind(column) + suffix)
        for column, first in zip(layout.sparse, layout.offsets, strict=True)
    ]


def _first_kernel(layout: Layout, weight: Weight) -> list[Section]:
    """The kernel of the first layer, a range for each feature that it reads: its rows are the features' values."""
    units = weight.shape[1]
    inputs = [(column.feature, column.feature, _shape(layout.dim, units)) for column in layout.sparse]
    # A bucketised feature is looked up and read as a number: two ranges, told apart by their names.
    inputs += [
        (f"value of {column.feature}", column.feature, _with_transforms(_shape(column.width, units), column))
        for column in layout.dense
    ]
    sizes = [units * rows for rows in [layout.dim] * len(layout.sparse) + [column.width for column in layout.dense]]
    starts = accumulate(sizes, initial=weight.offset)
    return [
        Section(DENSE, f"{weight.name}/{name}", owner, first, size, kind)
        for (name, owner, kind), first, size in zip(inputs, starts, sizes, strict=False)
    ]


def _with_transforms(kind: str, column: Dense) -> str:
    """`kind`, and what is done to the values: a weight of a logarithm is none of a plain number."""
    return f"{kind} of {column.transforms}" if column.transforms else kind


def _kind(column: Sparse) -> str:
    """How a value becomes a row. A vocabulary or boundaries go in by their hash: each value has its own row."""
    kind = f"{column.how} {'string' if column.is_string else 'number'} {column.buckets}"
    values = column.vocabulary or column.boundaries
    if not values:
        return kind
    return f"{kind} {hashlib.blake2b(msgspec.json.encode(values), digest_size=6).hexdigest()}"


def _cross_kind(layout: Layout, cross: Cross) -> str:
    # A hashed feature goes into a cross by its value, another by its bucket.
    columns = [layout.sparse[column] for column in cross.columns]
    kinds = [column.how if column.how == "hash" else _kind(column) for column in columns]
    return f"cross {cross.buckets} of {', '.join(kinds)}"


def _shape(*sizes: int) -> str:
    return "x".join(map(str, sizes))

"""The cut of a Wide & Deep model between what one user has and what each item has; without TensorFlow.

A column is the user's if all that it reads is: a list too whose weights are the user's. A list of which one half is the
user's is the items'. A cross is the user's or the items' if all its columns are; the others are mixed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from afo.data.schema import Schema, nearest
from afo.errors import SpecError
from afo.models.feature_layout import Cross, Dense, Layout, Sparse


@dataclass(frozen=True)
class Part:
    """Some columns of a model, in its order."""

    #: Of these alone.
    layout: Layout
    #: By how much the rows of its ids and crosses lie further on in the model's dense tables: [ids], [crosses].
    id_shifts: tuple[int, ...]
    cross_shifts: tuple[int, ...]
    #: The inputs of the first layer that are its own, and those among them that are dense values, by their place among
    #: all dense values.
    inputs: tuple[int, ...]
    dense_inputs: tuple[int, ...]


class Cut(NamedTuple):
    """Parts of a model; each column, and each cross, is of one of them."""

    user: Part
    items: Part
    #: Its crosses alone: their columns are of the other parts.
    mixed: Part
    #: Features of the user that columns of the items read.
    shared: tuple[str, ...]


def cut_by_user(layout: Layout, user_features: frozenset[str]) -> Cut:
    """Cut a model at the features of its user."""

    def is_users(column: Sparse | Dense) -> bool:
        return _features_of(column) <= user_features

    def select(of: Callable[[Sparse | Dense], bool]) -> Part:
        sparse = [place for place, column in enumerate(layout.sparse) if of(column)]
        crosses = [place for place, cross in enumerate(layout.crosses) if set(cross.columns) <= set(sparse)]
        return _part(layout, sparse, crosses, [place for place, column in enumerate(layout.dense) if of(column)])

    columns: list[Sparse | Dense] = [*layout.sparse, *layout.dense]
    read_by_items = [_features_of(column) for column in columns if not is_users(column)]
    return Cut(
        user=select(is_users),
        items=select(lambda column: not is_users(column)),
        mixed=_mixed(layout, is_users),
        shared=tuple(sorted(user_features & frozenset().union(*read_by_items))),
    )


def check_user_features(schema: Schema, labels: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raises SpecError, which begins with `where`, unless `names` are some features of the schema and not all."""
    for index, name in enumerate(names):
        if name in labels:
            raise SpecError(f"{where}[{index}]: `{name}` is a label, which no request holds; take it out")
        if name not in schema.names:
            raise SpecError(f"{where}[{index}]: feature `{name}` is not in the schema; {nearest(name, schema.names)}")
        if name in names[:index]:
            raise SpecError(f"{where}[{index}]: feature `{name}` is named twice; take it out once")
    if set(schema.names) <= set(names):
        raise SpecError(
            f"{where}: all {len(names)} features are named, and nothing would tell one item from another; name those"
            " alone that are the same for all items of a request"
        )


def _features_of(column: Sparse | Dense) -> frozenset[str]:
    weights = column.pooling.weights if column.pooling else ""
    return frozenset({column.feature, weights} - {""})


def _mixed(layout: Layout, is_users: Callable[[Sparse | Dense], bool]) -> Part:
    def has_both(cross: Cross) -> bool:
        return len({is_users(layout.sparse[column]) for column in cross.columns}) == 2

    crosses = [place for place, cross in enumerate(layout.crosses) if has_both(cross)]
    sparse = sorted({column for place in crosses for column in layout.crosses[place].columns})
    bucketised = {layout.sparse[place].feature for place in sparse}
    return _part(layout, sparse, crosses, [n for n, c in enumerate(layout.dense) if c.feature in bucketised])


def _part(layout: Layout, sparse: Sequence[int], crosses: Sequence[int], dense: Sequence[int]) -> Part:
    """Of columns by their places in the layout."""
    own = replace(
        layout,
        sparse=tuple(layout.sparse[place] for place in sparse),
        crosses=tuple(_moved(layout.crosses[place], sparse) for place in crosses),
        dense=tuple(layout.dense[place] for place in dense),
    )
    first = list(accumulate((column.width for column in layout.dense), initial=0))
    values = [value for place in dense for value in range(first[place], first[place + 1])]
    embeddings = [place * layout.dim + value for place in sparse for value in range(layout.dim)]
    moves = zip(own.sparse, own.offsets, [layout.offsets[place] for place in sparse], strict=True)
    return Part(
        layout=own,
        id_shifts=tuple(whole - start for column, start, whole in moves for _ in range(column.values)),
        cross_shifts=tuple(
            layout.cross_offsets[place] - start for place, start in zip(crosses, own.cross_offsets, strict=True)
        ),
        inputs=(*embeddings, *(len(layout.sparse) * layout.dim + value for value in values)),
        dense_inputs=tuple(values),
    )


def _moved(cross: Cross, sparse: Sequence[int]) -> Cross:
    return replace(cross, columns=tuple(sparse.index(column) for column in cross.columns))

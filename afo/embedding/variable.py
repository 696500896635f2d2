"""An embedding variable: a table of 64-bit keys that grows with what it sees."""

from typing import Any, get_args

import numpy as np
import tensorflow as tf

from afo.embedding.group import TableGroup, check_dim
from afo.embedding.initializers import initializer_of
from afo.embedding.server_tables import Table
from afo.errors import SpecError
from afo.job import Adagrad, Eviction, Filter, RowOptimizer, UpdateRule, ValueDtype

_default: list[TableGroup] = []
_ADMITS_ALL, _KEEPS_ALL = Filter(), Eviction()


class EmbeddingVariable:
    """Rows of `embedding_dim` weights by key, with the optimizer's slots, in the tables of a group.

    Keys are int64, all of them allowed, or strings, which stand for their 64-bit fingerprint. A row comes when a lookup
    under an `EmbeddingTape` first names its key, or later where a filter admits it; elsewhere an absent key has the
    values that it would begin with, or those of the filter.
    """

    def __init__(self, group: TableGroup, number: int) -> None:
        self.group = group
        self.number = number

    @property
    def name(self) -> str:
        """Once in its group."""
        return self.group.tables[self.number].name

    @property
    def embedding_dim(self) -> int:
        """Weights of a row."""
        return self.group.tables[self.number].dim

    def total_count(self) -> int:
        """Keys that have a row, on all servers."""
        return int(self.group.sizes()[0][:, self.number].sum())

    def memory_bytes(self) -> int:
        """Memory of its rows and indexes, on all servers."""
        return int(self.group.sizes()[1][:, self.number].sum())

    def remove(self, keys: Any) -> int:
        """Removes the rows of `keys`; returns how many there were. A key that comes again begins anew."""
        return self.group.remove(self.number, np.asarray(keys_of(tf.convert_to_tensor(keys))))

    def __repr__(self) -> str:
        return f"<EmbeddingVariable {self.name} dim={self.embedding_dim} on {self.group.servers} server(s)>"


def get_embedding_variable(
    name: str,
    embedding_dim: int,
    *,
    initializer: Any = None,
    optimizer: UpdateRule | None = None,
    seed: int = 0,
    group: TableGroup | None = None,
    filter_option: Filter = _ADMITS_ALL,
    evict_option: Eviction = _KEEPS_ALL,
    clip_value: float | None = None,
    clip_norm: float | None = None,
    value_dtype: Any = tf.float32,
) -> EmbeddingVariable:
    """A new embedding variable. Without `group` it lives in this process.

    `initializer`: a number, or one of Keras' (`afo.embedding.initializers`). `optimizer`: AdaGrad if left out; its
    slots are in the row, so it belongs to the variable. `filter_option`: which keys get a row; `evict_option`: which
    lose theirs when `group.evict` is called. `clip_value` limits each element of a row's gradient, summed over the
    batch, `clip_norm` then its length. `value_dtype`: tf.bfloat16 keeps the weights in
    half the bytes; lookups and checkpoints give float32 all the same. Raises SpecError and Unsupported.
    """
    if group is None:
        if not _default:
            _default.append(TableGroup())
        group = _default[0]
    check_dim(name, embedding_dim)
    first = initializer_of(initializer, embedding_dim, seed)
    clipping = RowOptimizer(clip_value=clip_value, clip_norm=clip_norm).clipping
    table = Table(
        name, embedding_dim, optimizer or Adagrad(), first, filter=filter_option, eviction=evict_option,
        clipping=clipping, value_dtype=_value_dtype(name, value_dtype),
    )  # fmt: skip
    return EmbeddingVariable(group, group.add(table))


def _value_dtype(name: str, given: Any) -> ValueDtype:
    """Raises SpecError for a type that a table's weights cannot have."""
    allowed: dict[str, ValueDtype] = {kind: kind for kind in get_args(ValueDtype)}
    found = tf.as_dtype(given).name
    if found not in allowed:
        raise SpecError(
            f"embedding variable `{name}`: value_dtype is {found}; use tf.float32 or, in half the bytes, tf.bfloat16"
        )
    return allowed[found]


def keys_of(values: Any) -> Any:
    """int64 keys of integers or strings: of a string its FarmHash fingerprint, the same as `tf.fingerprint` gives."""
    if values.dtype == tf.string:
        prints = tf.fingerprint(tf.reshape(values, [-1]))
        return tf.reshape(tf.bitcast(prints, tf.int64), tf.shape(values))
    return tf.cast(values, tf.int64)

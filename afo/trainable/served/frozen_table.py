"""A hash table that is only read, in operations that every TensorFlow has: for evaluation and for a served model."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from afo.job import RowType
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows
from afo.trainable.served.mapped_columns import map_columns
from afo.trainable.served.stored_rows import StoredRows


class FrozenTable(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Keys in ascending order, found by bisection. An absent key has `absent`, or zeros: nothing was learned of it.

    So what is measured is what is served. While a table trains, an absent key has the first values of a new row, or,
    with a filter, that filter's default value.
    """

    def __init__(self, rows: Rows | MergedRows, absent: float = 0.0, kept: RowType = "float32") -> None:
        """`kept`: how the weights lie in memory. Raises DataError where that cannot hold them.

        With merged rows it is only to be saved: its columns are mapped files (`mapped_columns`).
        """
        super().__init__(name="table")
        self._absent = absent
        keys, weights = _with_absent(rows, absent) if isinstance(rows, Rows) else map_columns(rows, absent, kept)
        self.keys = tf.Variable(keys, trainable=False, shape=tf.TensorShape([None]))
        self.weights = StoredRows(weights, kept)

    def load(self, rows: Rows) -> None:
        """Take other rows, of the same width."""
        keys, weights = _with_absent(rows, self._absent)
        self.keys.assign(keys)
        self.weights.load(weights)

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""
        flat = tf.reshape(keys, [-1])
        last = tf.size(self.keys, tf.int64) - 1
        nearest = tf.minimum(tf.searchsorted(self.keys, flat, out_type=tf.int64), last)
        # Row 0 is of absent keys; the key at i has row i + 1.
        places = tf.where(tf.gather(self.keys, nearest) == flat, nearest + 1, 0)
        return self.weights.lookup(tf.reshape(places, tf.shape(keys)))

    @classmethod
    def lookup_all(cls, tables: Sequence[Self], keys: Sequence[Any]) -> Any:
        """Of tables of one width, int64 [B, values] of each → float32 [B, values of all, dim]."""
        return tf.concat([table.lookup(own) for table, own in zip(tables, keys, strict=True)], axis=1)


def _with_absent(rows: Rows, absent: float) -> tuple[Any, Any]:
    """Never without a key: an empty table has one whose weights are those of absent keys."""
    dim = rows.weights.shape[1]
    if len(rows.keys) == 0:
        return np.zeros(1, np.int64), np.full((2, dim), absent, np.float32)
    return rows.keys, np.concatenate([np.full((1, dim), absent, np.float32), rows.weights])

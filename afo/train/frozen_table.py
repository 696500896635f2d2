"""A hash table that is only read, in operations that every TensorFlow has: for evaluation and for a served model."""

from typing import Any

import numpy as np
import tensorflow as tf

from afo.embedding.saved_tables import Rows


class FrozenTable(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Keys in ascending order, found by bisection. An absent key has zeros: nothing was learned of it.

    So what is measured is what is served. While a table trains, an absent key has the first values of a new row.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__(name="table")
        keys, weights = _with_zeros(rows)
        shape = tf.TensorShape([None])
        self.keys = tf.Variable(keys, trainable=False, shape=shape)
        self.weights = tf.Variable(weights, trainable=False, shape=shape.concatenate(weights.shape[1:]))

    def load(self, rows: Rows) -> None:
        """Take other rows, of the same width."""
        keys, weights = _with_zeros(rows)
        self.keys.assign(keys)
        self.weights.assign(weights)

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""
        flat = tf.reshape(keys, [-1])
        last = tf.size(self.keys, tf.int64) - 1
        nearest = tf.minimum(tf.searchsorted(self.keys, flat, out_type=tf.int64), last)
        # Row 0 is the zeros; the key at i has row i + 1.
        places = tf.where(tf.gather(self.keys, nearest) == flat, nearest + 1, 0)
        return tf.gather(self.weights, tf.reshape(places, tf.shape(keys)))


def _with_zeros(rows: Rows) -> tuple[Any, Any]:
    """Never without a key: an empty table has one whose weights are zero."""
    dim = rows.weights.shape[1]
    if len(rows.keys) == 0:
        return np.zeros(1, np.int64), np.zeros((2, dim), np.float32)
    return rows.keys, np.concatenate([np.zeros((1, dim), np.float32), rows.weights])

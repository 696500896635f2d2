"""A batch's lists of ids, one for each sample, without what counts for nothing."""

from typing import Any, NamedTuple

import tensorflow as tf


class Bag(NamedTuple):
    """Ids of several samples behind one another."""

    #: int64 [n].
    ids: Any
    #: int64 [samples + 1]: where each sample's ids begin.
    splits: Any
    #: float32 [n]; None: all weigh 1.
    weights: Any


def bag_of(ids: Any, counts: Any, weights: Any) -> Bag:
    """Of ids [B, n] those that `counts` [B, n] names, or, if it is None, all; `weights` [B, n] or None."""
    size, values = tf.unstack(tf.shape(ids, tf.int64))
    if counts is None:
        flat = None if weights is None else tf.reshape(weights, [-1])
        return Bag(tf.reshape(ids, [-1]), tf.range(size + 1) * values, flat)
    lengths = tf.reduce_sum(tf.cast(counts, tf.int64), axis=1)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(lengths)], axis=0)
    return Bag(tf.boolean_mask(ids, counts), splits, None if weights is None else tf.boolean_mask(weights, counts))

"""Routing of a batch's rows to the parameter servers that hold them."""

from typing import Any, NamedTuple

import tensorflow as tf


class Route(NamedTuple):
    """The different rows of a batch by server, and the way back."""

    #: For each server the rows asked of it, as numbered there: int64 [n_server].
    rows: tuple[Any, ...]
    #: For each id of the batch its place in the rows of all servers one behind the other: int32 [ids].
    places: Any


def route(ids: Any, servers: int) -> Route:
    """`ids`: int64 [n] rows of a table that is dealt out to `servers` row by row."""
    unique, inverse = tf.unique(ids)
    if servers == 1:
        return Route((unique,), inverse)
    owner = tf.cast(unique % servers, tf.int32)
    rows = tf.dynamic_partition(unique // servers, owner, servers)
    order = tf.concat(tf.dynamic_partition(tf.range(tf.size(unique)), owner, servers), axis=0)
    return Route(tuple(rows), tf.gather(tf.math.invert_permutation(order), inverse))

"""Exchange of a step with the parameter servers: its rows go to those that hold them."""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.params.parameters import Parameter, Parameters, Shard
from afo.params.variables import gather_rows, ps_device, read_value


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


class RowGradient(NamedTuple):
    """Gradient, or change, of different rows of a table: [n, width], in the order of `rows`, server by server."""

    table: Parameter
    #: For each server the rows as numbered there, int64.
    rows: tuple[Any, ...]
    values: Any


class Exchange:
    """Builds the operations of one traced function on one set of handles, so that they keep their order."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._handles = {
            variable.name: variable.handle()
            for parameter in parameters.trained
            for shard in parameter.shards
            for variable in (shard.weights, *shard.slots)
        }
        #: Every table and values that were asked for, in this order.
        self.gathered: list[tuple[Parameter, Any]] = []

    def rows(self, table: Parameter, rows: tuple[Any, ...]) -> Any:
        """Rows of a table on the worker, [n, width]: those of the first server first. One question a server."""
        parts = []
        for task, shard in enumerate(table.shards):
            with tf.device(ps_device(task)):
                parts.append(gather_rows(self._handles[shard.weights.name], rows[task]))
        values = tf.concat(parts, axis=0)
        self.gathered.append((table, values))
        return values

    def vector(self) -> Any:
        """All dense weights, on the worker."""
        parts = []
        for task, shard in enumerate(self.parameters.dense.shards):
            with tf.device(ps_device(task)):
                parts.append(read_value(self._handles[shard.weights.name], shard.weights.dtype))
        return tf.concat(parts, axis=0)

    def apply_rows(self, gradient: RowGradient, rate: Any) -> list[Any]:
        """Have the servers apply a table's gradient; returns the operations that do it."""
        table = gradient.table
        parts = tf.split(gradient.values, [tf.size(rows) for rows in gradient.rows])
        operations = []
        for task, shard in enumerate(table.shards):
            weights, slots = self._handles_of(shard)
            with tf.device(ps_device(task)):
                operations.append(table.rule.apply_sparse(weights, slots, parts[task], gradient.rows[task], rate))
        return operations

    def move_vector(self, change: Any) -> list[Any]:
        """Add to the dense weights what is no gradient; returns the operations that do it."""
        dense = self.parameters.dense
        parts = tf.split(change, [shard.weights.shape[0] for shard in dense.shards])
        operations = []
        for task, shard in enumerate(dense.shards):
            with tf.device(ps_device(task)):
                operations.append(
                    tf.raw_ops.AssignAddVariableOp(resource=self._handles[shard.weights.name], value=parts[task])
                )
        return operations

    def move_rows(self, change: RowGradient) -> list[Any]:
        """The same of a table's rows."""
        parts = tf.split(change.values, [tf.size(rows) for rows in change.rows])
        operations = []
        for task, shard in enumerate(change.table.shards):
            with tf.device(ps_device(task)):
                handle = self._handles[shard.weights.name]
                operations.append(
                    tf.raw_ops.ResourceScatterAdd(resource=handle, indices=change.rows[task], updates=parts[task])
                )
        return operations

    def apply_vector(self, gradient: Any, rate: Any) -> list[Any]:
        """The same for the dense weights."""
        dense = self.parameters.dense
        parts = tf.split(gradient, [shard.weights.shape[0] for shard in dense.shards])
        operations = []
        for task, shard in enumerate(dense.shards):
            weights, slots = self._handles_of(shard)
            with tf.device(ps_device(task)):
                operations.append(dense.rule.apply_dense(weights, slots, parts[task], rate))
        return operations

    def _handles_of(self, shard: Shard) -> tuple[Any, tuple[Any, ...]]:
        return self._handles[shard.weights.name], tuple(self._handles[slot.name] for slot in shard.slots)

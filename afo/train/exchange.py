"""What a step gets from the parameter servers and gives back: one exchange with each of them, whatever the model."""

from typing import Any, NamedTuple

import tensorflow as tf

from afo.train.parameters import Parameter, Parameters
from afo.train.routing import Route
from afo.train.variables import gather_rows, ps_device, read_value


class Pulled(NamedTuple):
    """Parameters of a batch's n different ids and m different crosses; also the shape of their gradients."""

    #: float32 [n, dim], None without a deep part.
    embeddings: Any
    #: float32 [n] and [m], None without a wide part.
    linear: Any
    crosses: Any
    #: All dense weights.
    vector: Any


class Exchange:
    """Builds the operations of one traced function on one set of handles, so that they keep their order."""

    def __init__(self, parameters: Parameters, ids: Route, crosses: Route) -> None:
        self._parameters = parameters
        self._handles = {
            variable.name: variable.handle()
            for parameter in parameters.trained
            for shard in parameter.shards
            for variable in (shard.weights, *shard.slots)
        }
        self._id_sizes = [tf.size(rows) for rows in ids.rows]
        self._cross_sizes = [tf.size(rows) for rows in crosses.rows]
        self._ids = []
        self._linear_rows = []
        for task, (id_rows, cross_rows) in enumerate(zip(ids.rows, crosses.rows, strict=True)):
            with tf.device(ps_device(task)):
                # Sent once and used twice: the same rows of both tables belong to an id.
                self._ids.append(tf.identity(id_rows))
                self._linear_rows.append(tf.concat([self._ids[-1], cross_rows], axis=0))

    def pull(self) -> Pulled:
        """The parameters, on the worker."""
        parameters = self._parameters
        embeddings = linear = crosses = None
        if parameters.deep is not None:
            embeddings = tf.concat(self._gather(parameters.deep, self._ids), axis=0)
        if parameters.wide is not None:
            values = [tf.reshape(part, [-1]) for part in self._gather(parameters.wide, self._linear_rows)]
            parts = [
                tf.split(part, sizes)
                for part, sizes in zip(values, zip(self._id_sizes, self._cross_sizes, strict=True), strict=True)
            ]
            linear, crosses = (tf.concat(column, axis=0) for column in zip(*parts, strict=True))
        return Pulled(embeddings, linear, crosses, self._vector())

    def push(self, gradients: Pulled) -> list[Any]:
        """Have the servers apply gradients; returns the operations that do it."""
        parameters = self._parameters
        applied = []
        if parameters.deep is not None:
            parts = tf.split(gradients.embeddings, self._id_sizes)
            applied += self._apply(parameters.deep, self._ids, parts)
        if parameters.wide is not None:
            pairs = zip(
                tf.split(gradients.linear, self._id_sizes), tf.split(gradients.crosses, self._cross_sizes), strict=True
            )
            parts = [tf.concat(pair, axis=0)[:, tf.newaxis] for pair in pairs]
            applied += self._apply(parameters.wide, self._linear_rows, parts)
        return applied + self._apply_vector(gradients.vector)

    def _gather(self, table: Parameter, rows: list[Any]) -> list[Any]:
        parts = []
        for task, shard in enumerate(table.shards):
            with tf.device(ps_device(task)):
                parts.append(gather_rows(self._handles[shard.weights.name], rows[task]))
        return parts

    def _vector(self) -> Any:
        parts = []
        for task, shard in enumerate(self._parameters.dense.shards):
            with tf.device(ps_device(task)):
                parts.append(read_value(self._handles[shard.weights.name], shard.weights.dtype))
        return tf.concat(parts, axis=0)

    def _apply(self, table: Parameter, rows: list[Any], gradients: list[Any]) -> list[Any]:
        operations = []
        for task, shard in enumerate(table.shards):
            weights, slots = self._handles[shard.weights.name], tuple(self._handles[s.name] for s in shard.slots)
            with tf.device(ps_device(task)):
                operations.append(table.rule.apply_sparse(weights, slots, gradients[task], rows[task]))
        return operations

    def _apply_vector(self, gradient: Any) -> list[Any]:
        dense = self._parameters.dense
        parts = tf.split(gradient, [shard.weights.shape[0] for shard in dense.shards])
        operations = []
        for task, shard in enumerate(dense.shards):
            weights, slots = self._handles[shard.weights.name], tuple(self._handles[s.name] for s in shard.slots)
            with tf.device(ps_device(task)):
                operations.append(dense.rule.apply_dense(weights, slots, parts[task]))
        return operations

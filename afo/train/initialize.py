"""First values of all parameters, made where they live."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from afo.models.layout import Layout
from afo.models.wide_deep import initial_vector
from afo.train.parameters import Parameter, Parameters, Shard, range_of
from afo.train.variables import VariableIo

#: Epoch of a position that nothing was read of yet.
NO_EPOCH = -1


def initialize(layout: Layout, parameters: Parameters, seed: int) -> None:
    """Create every variable: embeddings normal, linear weights zero, counters at the start."""
    vector = initial_vector(layout, seed)

    def create() -> None:
        for number, table in enumerate(parameters.tables):
            for task, shard in enumerate(table.shards):
                draw = partial(_drawn, table, shard, (seed, number * parameters.servers + task))
                _create(table, shard, draw)
        for task, shard in enumerate(parameters.dense.shards):
            start, stop = range_of(parameters.dense.rows, task, parameters.servers)
            _create(parameters.dense, shard, partial(tf.constant, vector[start:stop]))

    tf.function(create, autograph=False)()
    VariableIo(parameters.statistics).assign(np.zeros(parameters.statistics.shape))
    VariableIo(parameters.positions).assign(np.tile([NO_EPOCH, 0, 0], (parameters.positions.shape[0], 1)))
    VariableIo(parameters.step).assign(0)


def create_empty(parameters: Parameters) -> None:
    """Create the trained parameters with their slots, all zero, for a restore to fill."""

    def create() -> None:
        for parameter in parameters.trained:
            for shard in parameter.shards:
                for variable in (shard.weights, *shard.slots):
                    handle = variable.handle()
                    with tf.device(variable.device):
                        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(variable.shape))

    tf.function(create, autograph=False)()


def _drawn(table: Parameter, shard: Shard, seed: tuple[int, int]) -> Any:
    if not table.scale:
        return tf.zeros(shard.weights.shape)
    return tf.random.stateless_truncated_normal(shard.weights.shape, seed, stddev=table.scale)


def _create(parameter: Parameter, shard: Shard, draw: Callable[[], Any]) -> None:
    """Assign weights and slots where they live: the values never leave their server."""
    handles = [variable.handle() for variable in (shard.weights, *shard.slots)]
    with tf.device(shard.weights.device):
        first = draw()
        for handle, value in zip(handles, (first, *parameter.rule.initial(first)), strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

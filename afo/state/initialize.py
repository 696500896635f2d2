"""First values of all parameters, made where they live."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from afo.state.parameters import Parameter, Parameters, Shard, no_positions, range_of
from afo.state.server_state import ServerState, server_state, server_states

#: (shape of a shard, number of the shard among all of the job's tables) → its first values.
Draw = Callable[[tuple[int, ...], int], Any]


def create(parameters: Parameters, draws: Mapping[str, Draw], vector: Any, state: Mapping[str, Any]) -> None:
    """Create every variable: dense tables as `draws` says for each, hash tables empty, dense weights out of `vector`.

    `state` holds first values of `Parameters.state` by name; the others, as all counters, are zero.
    """

    def create() -> None:
        for number, table in enumerate(parameters.tables):
            for task, shard in enumerate(table.shards):
                number_of_shard = number * parameters.servers + task
                _create(table, shard, partial(draws[table.name], shard.weights.shape, number_of_shard))

    tf.function(create, autograph=False)()
    if parameters.embeddings is not None:
        parameters.embeddings.create()
    first = _first_records(parameters, state)
    for server, there in enumerate(server_states(parameters)):
        start, stop = range_of(parameters.dense.rows, server, parameters.servers)
        there.reset_weights(vector[start:stop])
        write_records(parameters, there, server, first)


def _first_records(parameters: Parameters, state: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        name: state.get(variable.name, np.zeros(variable.shape, variable.dtype))
        for name, variable in parameters.records.items()
    }
    return values | {"positions": no_positions(parameters.positions.shape[0])}


def write_records(parameters: Parameters, to: ServerState, server: int, values: Mapping[str, Any]) -> None:
    """Create or replace those of all `values` that the server holds."""
    if here := parameters.records_on(server):
        to.write_records({name: values[name] for name in here})


def create_empty(parameters: Parameters, kept: Collection[int] = ()) -> None:
    """Create the trained parameters with their slots, all zero, for a restore to fill; not on the servers in `kept`.

    Hash tables are created empty.
    """

    def create() -> None:
        for table in parameters.tables:
            for shard in table.shards:
                if shard.weights.server in kept:
                    continue
                for variable in (shard.weights, *shard.slots):
                    handle = variable.handle()
                    with tf.device(variable.device):
                        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(variable.shape))

    tf.function(create, autograph=False)()
    lost = [server for server in range(parameters.servers) if server not in kept]
    if parameters.embeddings is not None:
        parameters.embeddings.create(lost)
    for server in lost:
        server_state(parameters, server).create()


def normal(scale: float, seed: int) -> Draw:
    """Normal with this standard deviation, cut off at two of them."""
    return lambda shape, number: tf.random.stateless_truncated_normal(shape, (seed, number), stddev=scale)


def zeros(shape: tuple[int, ...], _: int) -> Any:
    """Zeros."""
    return tf.zeros(shape)


def _create(parameter: Parameter, shard: Shard, draw: Callable[[], Any]) -> None:
    """Assign weights and slots where they live: the values never leave their server."""
    handles = [variable.handle() for variable in (shard.weights, *shard.slots)]
    with tf.device(shard.weights.device):
        first = draw()
        for handle, value in zip(handles, (first, *parameter.rule.initial(first)), strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

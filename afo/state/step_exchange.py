"""Exchange of a step with the parameter servers: what it pulls, and what it pushes to those that hold it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding.pull_push import DeviceServers, Request, Servers, Update
from afo.state.parameters import Parameter, Parameters, Shard
from afo.state.server_state import StepState, step_state
from afo.state.variables import client_device, gather_rows, server_devices


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
    """Builds the operations of one traced function on one set of handles, so that they keep their order.

    What is known before is asked by `ask`, all at once by `pull`; what changes goes by `push`.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._servers = _servers_of(parameters)
        #: Of each server, beside its tables.
        self.states = [step_state(parameters, server) for server in range(parameters.servers)]
        self._handles = {
            variable.name: variable.handle()
            for parameter in parameters.tables
            for shard in parameter.shards
            for variable in (shard.weights, *shard.slots)
        }
        self._requests: list[Request] = []
        #: Every table and values that were asked for, in this order.
        self.gathered: list[tuple[Parameter, Any]] = []
        #: All dense weights, on the worker, once they were pulled.
        self.vector: Any = None

    def ask(self, request: Request) -> None:
        """Have it answered by `pull`."""
        self._requests.append(request)

    def pull(self, *others: Request) -> None:
        """Get the answers to everything that was asked, to `others`, and the dense weights."""
        vector = _DenseWeights(self.states)
        self._servers.pull([*self._requests, *others, vector])
        self.vector = vector.whole

    def push(self, updates: Sequence[Update], last: Sequence[Update]) -> list[Any]:
        """Have the servers apply `updates`, then `last`; returns the operations that are the end of it."""
        return self._servers.push(updates, last)

    def rows(self, table: Parameter, rows: tuple[Any, ...]) -> Any:
        """Rows of a table on the worker, [n, width]: those of the first server first. Asked at once."""
        parts = []
        for task, shard in enumerate(table.shards):
            with tf.device(shard.weights.device):
                parts.append(gather_rows(self.handle(shard), rows[task]))
        values = tf.concat(parts, axis=0)
        self.gathered.append((table, values))
        return values

    @property
    def devices(self) -> tuple[str, ...]:
        """Those of the servers."""
        return self._servers.devices

    def handle(self, shard: Shard) -> Any:
        """Of its weights."""
        return self._handles[shard.weights.name]

    def slots(self, shard: Shard) -> tuple[Any, ...]:
        """The handles of its slots."""
        return tuple(self._handles[slot.name] for slot in shard.slots)


def _servers_of(parameters: Parameters) -> Servers:
    """Those of its hash tables; without any the native operations, which carry messages, may be missing."""
    if parameters.embeddings is not None:
        return parameters.embeddings.as_servers
    return DeviceServers(server_devices(parameters.servers), client_device(), carries=False)


class _DenseWeights:
    """A request for them."""

    def __init__(self, states: Sequence[StepState]) -> None:
        self._states = states
        self.whole: Any = None

    def asked_of(self, server: int) -> list[Any]:
        return []

    def answer(self, server: int, asked: Sequence[Any]) -> list[Any]:
        return [self._states[server].read_weights()]

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        self.whole = tf.concat([part for (part,) in answers], axis=0)


class RowsUpdate:
    """Has the servers apply a table's gradient."""

    def __init__(self, exchange: Exchange, gradient: RowGradient, rate: Any) -> None:
        self._exchange, self._gradient, self._rate = exchange, gradient, rate
        self._parts = tf.split(gradient.values, [tf.size(rows) for rows in gradient.rows])

    def given_to(self, server: int) -> list[Any]:
        """Its part of the gradient, and what multiplies the learning rate."""
        return [self._parts[server], *_tensors(self._rate)]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """By the table's rule."""
        table, (part, *rate) = self._gradient.table, given
        shard, rows = table.shards[server], self._gradient.rows[server]
        handle, slots = self._exchange.handle(shard), self._exchange.slots(shard)
        return [table.rule.apply_sparse(handle, slots, part, rows, *(rate or [self._rate]))]


class RowsMove:
    """Adds to rows of a table what is no gradient."""

    def __init__(self, exchange: Exchange, change: RowGradient) -> None:
        self._exchange, self._change = exchange, change
        self._parts = tf.split(change.values, [tf.size(rows) for rows in change.rows])

    def given_to(self, server: int) -> list[Any]:
        """Its part of the change."""
        return [self._parts[server]]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """Add it."""
        handle, rows = self._exchange.handle(self._change.table.shards[server]), self._change.rows[server]
        return [tf.raw_ops.ResourceScatterAdd(resource=handle, indices=rows, updates=given[0])]


class VectorUpdate:
    """Has the servers apply the gradient of the dense weights."""

    def __init__(self, exchange: Exchange, gradient: Any, rate: Any) -> None:
        self._states, self._rate = exchange.states, rate
        self._parts = _dense_parts(exchange, gradient)

    def given_to(self, server: int) -> list[Any]:
        """Its part of the gradient, and what multiplies the learning rate."""
        return [self._parts[server], *_tensors(self._rate)]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """By their rule."""
        part, *rate = given
        return [self._states[server].apply_gradient(part, *(rate or [self._rate]))]


class VectorMove:
    """Adds to the dense weights what is no gradient."""

    def __init__(self, exchange: Exchange, change: Any) -> None:
        self._states = exchange.states
        self._parts = _dense_parts(exchange, change)

    def given_to(self, server: int) -> list[Any]:
        """Its part of the change."""
        return [self._parts[server]]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """Add it."""
        return [self._states[server].add_to_weights(given[0])]


def _dense_parts(exchange: Exchange, values: Any) -> list[Any]:
    return list(tf.split(values, [shard.weights.shape[0] for shard in exchange.parameters.dense.shards]))


def _tensors(rate: Any) -> list[Any]:
    """A rate that is computed; one that is a number is known to whoever builds the operations."""
    return [tf.cast(rate, tf.float32)] if tf.is_tensor(rate) else []

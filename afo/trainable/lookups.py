"""Answers to the embeddings of a user's model: from nobody yet, the parameter servers, or a checkpoint's tables."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from afo.errors import ModelError
from afo.layers.layer_lookup import Lookup
from afo.state.parameters import Parameter
from afo.state.step_exchange import Exchange, Route, RowGradient, route
from afo.trainable.hashed_lookup import HashedLookup, all_within, reshape_rows


class Named(NamedTuple):
    """An embedding layer and the name of its table; `hashed`: it is a hash table, else it has `input_dim` rows.

    `foresees_weights`: with what its ids are weighted follows from the features alone.
    """

    name: str
    layer: Any
    hashed: bool = False
    foresees_weights: bool = True


class Call(NamedTuple):
    """A call of a layer: its ids as it got them, and the rest of what `Lookup.pool` is given."""

    layer: Any
    ids: Any
    counts: Any = None
    weights: Any = None


class Embeddings(Lookup):
    """Remembers who asks for what, and answers zeros: for tracing a model before its rows are there."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Zeros [..., output_dim]."""
        self.calls.append(Call(layer, ids))
        return reshape_rows(tf.zeros(tf.size(ids) * layer.output_dim), ids, layer)

    def pool(self, layer: Any, ids: Any, counts: Any, weights: Any) -> Any:
        """Zeros [B, output_dim], on which the weights have the part that they have in a job."""
        found = super().pool(layer, ids, counts, weights)
        self.calls[-1] = Call(layer, ids, counts, weights)
        return found

    def calls_in(self, graph: Any) -> list[Call]:
        """The calls in this graph itself, not in a loop, a condition or a function of it, or in another trace."""
        return [call for call in self.calls if call.ids.graph is graph]

    def name_layers(self) -> tuple[Named, ...]:
        """The layers in the order of their first call; a name stands for one of them alone."""
        found: dict[str, Any] = {}
        for layer in {id(call.layer): call.layer for call in self.calls}.values():
            path = "embedding." + layer.path.replace("/", ".")
            name, number = path, 1
            while name in found:
                number += 1
                name = f"{path}_{number}"
            found[name] = layer
        return tuple(Named(name, layer) for name, layer in found.items())


class _Asked(NamedTuple):
    """One call of a layer: its ids [n], where they lie, and the row of each of them [n, width]."""

    layer: Any
    table: Parameter
    ids: Any
    where: Route
    rows: Any
    #: By how much a constraint moved the row of each id, [n, width]; None without one.
    moved: Any


class ServerLookup(Lookup):
    """Asks the parameter servers for the different rows of a batch. For one traced step; watched by `tape`.

    What hash tables hold was asked before, by `tables`.
    """

    def __init__(
        self, embeddings: tuple[Named, ...], exchange: Exchange, tape: Any, tables: HashedLookup, step: Any
    ) -> None:
        """`step`: the updates so far."""
        dense = {table.name: table for table in exchange.parameters.tables}
        self._dense = {id(embedding.layer): dense[embedding.name] for embedding in embeddings if not embedding.hashed}
        self._exchange = exchange
        self._tape, self._step = tape, step
        self._hashed = tables
        self._graph = tf.compat.v1.get_default_graph()
        self._asked: list[_Asked] = []

    def __call__(self, layer: Any, ids: Any) -> Any:
        """One question to each server. Rows of a layer that is not `trainable` have no gradient."""
        self._require_own_graph(layer)
        rows = self._answer(layer, ids)
        return rows if layer.trainable else tf.stop_gradient(rows)

    def _answer(self, layer: Any, ids: Any) -> Any:
        if id(layer) not in self._dense:
            return self._hashed(layer, ids)
        table = self._dense[id(layer)]
        flat = tf.reshape(ids, [-1])
        with tf.control_dependencies([all_within(layer, flat)]):
            where = route(tf.identity(flat), len(table.shards))
        # The gradient is taken of each id's own copy and summed afterwards: quicker than through tf.gather.
        pulled = self._exchange.rows(table, where.rows)
        bounded = layer.constrain(pulled, self._step)
        rows = tf.gather(bounded, where.places)
        self._tape.watch(rows)
        moved = tf.gather(bounded - pulled, where.places) if layer.is_bounded else None
        self._asked.append(_Asked(layer, table, flat, where, rows, moved))
        return reshape_rows(rows, ids, layer)

    def pool(self, layer: Any, ids: Any, counts: Any, weights: Any) -> Any:
        """On the servers, or of rows that came."""
        self._require_own_graph(layer)
        if self._hashed.is_pooled(layer):
            sums = self._hashed.pool(layer, ids, weights)
            return sums if layer.trainable else tf.stop_gradient(sums)
        return super().pool(layer, ids, counts, weights)

    def distinct(self, layer: Any) -> Any:
        """What their gradients are taken of."""
        if id(layer) not in self._dense:
            return self._hashed.distinct(layer)
        calls = [asked for asked in self._asked if asked.layer is layer]
        return (
            _first_of_each(_route_calls(calls), [asked.rows for asked in calls]) if calls else super().distinct(layer)
        )

    def _require_own_graph(self, layer: Any) -> None:
        if tf.compat.v1.get_default_graph() is not self._graph:
            raise ModelError(
                f"embedding `{layer.name}` is called inside of a loop, a condition or a function of TensorFlow; call"
                " it on all ids before, so that a batch asks the parameter servers once"
            )

    @property
    def rows(self) -> list[Any]:
        """What the calls answered, in their order: what to take gradients of."""
        return [asked.rows for asked in self._asked]

    def sum_gradients(self, gradients: list[Any]) -> tuple[RowGradient, ...]:
        """Gradients of `rows`, summed over equal ids, one of each table; None where the loss does not depend on it."""
        by_table: dict[str, list[tuple[_Asked, Any]]] = {}
        for asked, gradient in zip(self._asked, gradients, strict=True):
            if gradient is not None:
                by_table.setdefault(asked.table.name, []).append((asked, gradient))
        return tuple(_sum_calls(calls) for calls in by_table.values())

    def measure_moves(self) -> tuple[RowGradient, ...]:
        """By how much constraints moved the rows since they came, one of each table that has one."""
        by_table: dict[str, list[_Asked]] = {}
        for asked in self._asked:
            if asked.moved is not None:
                by_table.setdefault(asked.table.name, []).append(asked)
        found = []
        for calls in by_table.values():
            where = _route_calls(calls)
            found.append(
                RowGradient(calls[0].table, where.rows, _first_of_each(where, [asked.moved for asked in calls]))
            )
        return tuple(found)


class LocalLookup(Lookup):
    """Takes rows out of tables of this process."""

    def __init__(self, embeddings: tuple[Named, ...], tables: Mapping[str, Any]) -> None:
        self._tables = {id(embedding.layer): tables[embedding.name] for embedding in embeddings}

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows [..., output_dim]."""
        return self._tables[id(layer)].lookup(ids)


def _sum_calls(calls: list[tuple[_Asked, Any]]) -> RowGradient:
    """The gradient of a table that several calls of its layer may have asked."""
    table, where = calls[0][0].table, _route_calls([asked for asked, _ in calls])
    gradients = tf.concat([tf.convert_to_tensor(gradient) for _, gradient in calls], axis=0)
    return RowGradient(table, where.rows, tf.math.unsorted_segment_sum(gradients, where.places, _count(where)))


def _route_calls(calls: list[_Asked]) -> Route:
    """Of the ids of all calls of a table."""
    if len(calls) == 1:
        return calls[0].where
    return route(tf.concat([asked.ids for asked in calls], axis=0), len(calls[0].table.shards))


def _first_of_each(where: Route, values: list[Any]) -> Any:
    """Of each different row what the first of its ids has; `values` [n, width] of each call's ids."""
    first = tf.math.unsorted_segment_min(tf.range(tf.size(where.places)), where.places, _count(where))
    return tf.gather(tf.concat(values, axis=0), first)


def _count(where: Route) -> Any:
    return tf.add_n([tf.size(rows) for rows in where.rows])

"""Who answers the embeddings of a user's model: nobody yet, the parameter servers, or a checkpoint's tables."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from afo.errors import ModelError
from afo.train.exchange import Exchange, RowGradient
from afo.train.parameters import Parameter
from afo.train.routing import Route, route


class Named(NamedTuple):
    """An embedding layer and the name of its table."""

    name: str
    layer: Any


class Embeddings:
    """Remembers who asks, and answers zeros: for tracing a model before there are tables."""

    def __init__(self) -> None:
        self._layers: dict[int, Any] = {}

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Zeros [..., output_dim]."""
        self._layers.setdefault(id(layer), layer)
        return _shaped(tf.zeros(tf.size(ids) * layer.output_dim), ids, layer)

    def named(self) -> tuple[Named, ...]:
        """The layers in the order of their first call; a name stands for one of them alone."""
        found: dict[str, Any] = {}
        for layer in self._layers.values():
            path = "embedding." + layer.path.replace("/", ".")
            name, number = path, 1
            while name in found:
                number += 1
                name = f"{path}_{number}"
            found[name] = layer
        return tuple(Named(name, layer) for name, layer in found.items())


class _Asked(NamedTuple):
    """One call of a layer: its ids [n], where they lie, and the row of each of them [n, width]."""

    table: Parameter
    ids: Any
    where: Route
    rows: Any


class ServerLookup:
    """Asks the parameter servers for the different rows of a batch. For one traced step; watched by `tape`."""

    def __init__(self, embeddings: tuple[Named, ...], exchange: Exchange, tape: Any) -> None:
        tables = {table.name: table for table in exchange.parameters.tables}
        self._tables = {id(layer): tables[name] for name, layer in embeddings}
        self._exchange = exchange
        self._tape = tape
        self._graph = tf.compat.v1.get_default_graph()
        self._asked: list[_Asked] = []

    def __call__(self, layer: Any, ids: Any) -> Any:
        """One question to each server."""
        if tf.compat.v1.get_default_graph() is not self._graph:
            raise ModelError(
                f"embedding `{layer.name}` is called inside of a loop, a condition or a function of TensorFlow; call"
                " it on all ids before, so that a batch asks the parameter servers once"
            )
        table = self._tables[id(layer)]
        flat = tf.reshape(ids, [-1])
        with tf.control_dependencies([_all_within(layer, flat)]):
            where = route(tf.identity(flat), len(table.shards))
        # The gradient is taken of each id's own copy and summed afterwards: quicker than through tf.gather.
        rows = tf.gather(self._exchange.rows(table, where.rows), where.places)
        self._tape.watch(rows)
        self._asked.append(_Asked(table, flat, where, rows))
        return _shaped(rows, ids, layer)

    @property
    def rows(self) -> list[Any]:
        """What the calls answered, in their order: what to take gradients of."""
        return [each.rows for each in self._asked]

    def summed(self, gradients: list[Any]) -> tuple[RowGradient, ...]:
        """Gradients of `rows`, summed over equal ids, one of each table; None where the loss does not depend on it."""
        by_table: dict[str, list[tuple[_Asked, Any]]] = {}
        for asked, gradient in zip(self._asked, gradients, strict=True):
            if gradient is not None:
                by_table.setdefault(asked.table.name, []).append((asked, gradient))
        return tuple(_summed(calls) for calls in by_table.values())


class LocalLookup:
    """Takes rows out of variables of this process."""

    def __init__(self, embeddings: tuple[Named, ...], variables: Mapping[str, Any]) -> None:
        self._variables = {id(layer): variables[name] for name, layer in embeddings}

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows [..., output_dim]."""
        return tf.gather(self._variables[id(layer)], ids)


def _summed(calls: list[tuple[_Asked, Any]]) -> RowGradient:
    """The gradient of a table that several calls of its layer may have asked."""
    table, where = calls[0][0].table, calls[0][0].where
    if len(calls) > 1:
        where = route(tf.concat([asked.ids for asked, _ in calls], axis=0), len(table.shards))
    gradients = tf.concat([tf.convert_to_tensor(gradient) for _, gradient in calls], axis=0)
    count = tf.add_n([tf.size(rows) for rows in where.rows])
    return RowGradient(table, where.rows, tf.math.unsorted_segment_sum(gradients, where.places, count))


def _all_within(layer: Any, ids: Any) -> Any:
    """Fails if an id is no row: a server would complain of a row by its number there."""
    fits = tf.reduce_all((ids >= 0) & (ids < layer.input_dim))
    lowest, highest = tf.reduce_min(ids), tf.reduce_max(ids)
    text = f"embedding `{layer.name}` has the rows 0 to {layer.input_dim - 1} and was asked for ids between"
    return tf.debugging.Assert(fits, [text, lowest, "and", highest], name="ids_are_rows")


def _shaped(rows: Any, ids: Any, layer: Any) -> Any:
    result = tf.reshape(rows, tf.concat([tf.shape(ids), [layer.output_dim]], axis=0))
    return tf.ensure_shape(result, [*ids.shape, layer.output_dim])

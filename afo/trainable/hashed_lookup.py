"""Hash tables of a user's model: all calls of its layers are known before the first is answered, and asked at once."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from afo.embedding import TableGroup
from afo.embedding.exchange import Asked, Exchange, exchange_of
from afo.embedding.pooled_exchange import PooledExchange, bag_of, pooled_exchange_of
from afo.job import Wire
from afo.trainable.model_protocol import TableGradients


class Way(NamedTuple):
    """How the rows of a layer come: their sums, or they themselves."""

    is_pooled: bool
    wire: Wire


class Foreseen(Protocol):
    """A call of a layer: `afo.trainable.lookups.Call`."""

    @property
    def layer(self) -> Any: ...
    @property
    def ids(self) -> Any: ...
    @property
    def counts(self) -> Any: ...
    @property
    def weights(self) -> Any: ...


class HashedLookup:
    """Answers the calls of a step that `calls` foresaw, in the order in which each layer is called."""

    def __init__(
        self, group: TableGroup | None, tables: Mapping[int, str], calls: Sequence[Foreseen], ways: Mapping[int, Way]
    ) -> None:
        """`group`: None for a model without hash tables, which has no calls.

        `tables`: name of the table by id of the layer; `ways`: by the same. Each way asks each server once.
        """
        self._group = group
        self._tables, self._ways = tables, ways
        by_way: dict[Way, list[Foreseen]] = {}
        for call in calls:
            by_way.setdefault(ways[id(call.layer)], []).append(call)
        checks = [
            all_within(foreseen.layer, tf.reshape(foreseen.ids, [-1])) for foreseen in calls if foreseen.layer.input_dim
        ]
        with tf.control_dependencies(checks):
            self._asked = [(those, self._exchange(way, those)) for way, those in by_way.items()]
        self._waiting: dict[int, list[tuple[Foreseen, Any]]] = {}

    @property
    def exchanges(self) -> tuple[Exchange | PooledExchange, ...]:
        """What is to be asked of the servers before anything is answered."""
        return tuple(exchange for _, exchange in self._asked)

    @property
    def values(self) -> list[list[Any]]:
        """What gradients are taken of."""
        return [exchange.values for _, exchange in self._asked]

    def gradients(self, found: list[list[Any]]) -> tuple[TableGradients, ...]:
        """Those of `values`, for the servers; zeros where the loss does not depend on an answer: its rows were seen."""
        return tuple(
            TableGradients(
                exchange,
                tuple(tf.zeros_like(v) if g is None else g for g, v in zip(parts, exchange.values, strict=True)),
            )
            for (_, exchange), parts in zip(self._asked, found, strict=True)
        )

    def open(self) -> None:
        """To be called where the gradients' tape watches the values."""
        for calls, exchange in self._asked:
            for call, answer in zip(calls, exchange.pool(), strict=True):
                self._waiting.setdefault(id(call.layer), []).append((call, answer))

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows [..., output_dim]. The step fails if these are other ids than were foreseen."""
        foreseen, rows = self._waiting[id(layer)].pop(0)
        with tf.control_dependencies([_assert_same(layer, "ids", foreseen.ids, ids)]):
            return reshape_rows(tf.identity(rows), ids, layer)

    def distinct(self, layer: Any) -> Any:
        """The different rows of this layer's table, [n, output_dim]; of one that is not pooled on the servers."""
        for calls, exchange in self._asked:
            if any(call.layer is layer for call in calls):
                rows = exchange.by_table(exchange.values)
                return rows[self._tables[id(layer)]]
        return tf.zeros([0, layer.output_dim])

    def is_pooled(self, layer: Any) -> bool:
        """Whether the servers send the sums of this layer, which `pool` returns."""
        return id(layer) in self._ways and self._ways[id(layer)].is_pooled

    def pool(self, layer: Any, ids: Any, weights: Any) -> Any:
        """Sums [B, output_dim]. The step fails if these are other ids or weights than were foreseen."""
        foreseen, sums = self._waiting[id(layer)].pop(0)
        checks = [_assert_same(layer, "ids", foreseen.ids, ids)]
        if weights is not None:
            checks.append(_assert_same(layer, "weights", foreseen.weights, weights))
        with tf.control_dependencies(checks):
            return tf.ensure_shape(tf.identity(sums), [ids.shape[0], layer.output_dim])

    def _exchange(self, way: Way, calls: Sequence[Foreseen]) -> Exchange | PooledExchange:
        group, wire = self._group, tf.as_dtype(way.wire)
        assert group is not None, "who calls has a table"
        by_name = {table.name: number for number, table in enumerate(group.tables)}
        numbers = [by_name[self._tables[id(call.layer)]] for call in calls]
        if not way.is_pooled:
            flat = [tf.reshape(tf.identity(call.ids), [-1]) for call in calls]
            return exchange_of(group, list(map(Asked, numbers, flat)), insert=True, wire=wire)
        asked = []
        for number, call in zip(numbers, calls, strict=True):
            bag = bag_of(tf.identity(call.ids), call.counts, call.weights)
            asked.append(Asked(number, bag.ids, bag.splits, bag.weights, call.layer.combiner))
        return pooled_exchange_of(group, asked, insert=True, wire=wire)


def _assert_same(layer: Any, what: str, foreseen: Any, given: Any) -> Any:
    """Fails where it is not."""
    one, other = tf.reshape(foreseen, [-1]), tf.reshape(given, [-1])
    same = tf.reduce_all(tf.equal(tf.shape(one), tf.shape(other))) & tf.reduce_all(one == other)
    text = f"embedding `{layer.name}` is asked for other {what} in training than without"
    return tf.debugging.Assert(same, [text], name="ids_are_foreseen")


def all_within(layer: Any, ids: Any) -> Any:
    """Fails if an id is no row: a server would complain of a row by its number there."""
    fits = tf.reduce_all((ids >= 0) & (ids < layer.input_dim))
    lowest, highest = tf.reduce_min(ids), tf.reduce_max(ids)
    text = f"embedding `{layer.name}` has the rows 0 to {layer.input_dim - 1} and was asked for ids between"
    return tf.debugging.Assert(fits, [text, lowest, "and", highest], name="ids_are_rows")


def reshape_rows(rows: Any, ids: Any, layer: Any) -> Any:
    result = tf.reshape(rows, tf.concat([tf.shape(ids), [layer.output_dim]], axis=0))
    return tf.ensure_shape(result, [*ids.shape, layer.output_dim])

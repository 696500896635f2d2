"""Hash tables of a user's model: all calls of its layers are known before the first is answered, and asked at once."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from afo.embedding import TableGroup
from afo.embedding.exchange import Asked, exchange_of
from afo.train.layer_ids import all_within, shaped


class HashedLookup:
    """Answers the calls of a step that `calls` foresaw: (layer, ids) in the order in which each layer is called."""

    def __init__(self, group: TableGroup, tables: dict[int, str], calls: Sequence[tuple[Any, Any]]) -> None:
        """`tables`: name of the table by id of the layer."""
        numbers = {table.name: number for number, table in enumerate(group.tables)}
        self._foreseen = [(layer, tf.reshape(ids, [-1])) for layer, ids in calls]
        checks = [all_within(layer, flat) for layer, flat in self._foreseen if layer.input_dim is not None]
        with tf.control_dependencies(checks):
            asked = [Asked(numbers[tables[id(layer)]], tf.identity(flat)) for layer, flat in self._foreseen]
        #: Its `values` are what gradients are taken of.
        self.exchange = exchange_of(group, asked, insert=True)
        self._waiting: dict[int, list[tuple[Any, Any]]] = {}

    def open(self) -> None:
        """To be called where the gradients' tape watches the values."""
        for (layer, flat), rows in zip(self._foreseen, self.exchange.pooled(), strict=True):
            self._waiting.setdefault(id(layer), []).append((flat, rows))

    def __call__(self, layer: Any, ids: Any) -> Any:
        """Rows [..., output_dim]. The step fails if these are other ids than were foreseen."""
        foreseen, rows = self._waiting[id(layer)].pop(0)
        flat = tf.reshape(ids, [-1])
        same = tf.reduce_all(tf.equal(tf.shape(flat), tf.shape(foreseen))) & tf.reduce_all(foreseen == flat)
        text = f"embedding `{layer.name}` is asked for other ids in training than without"
        with tf.control_dependencies([tf.debugging.Assert(same, [text], name="ids_are_foreseen")]):
            return shaped(tf.identity(rows), ids, layer)

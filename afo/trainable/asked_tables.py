"""Requests of a Wide & Deep batch to the hash tables: rows that come to the worker, and sums of the servers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding import TableGroup
from afo.embedding.exchange import Exchange as TableExchange
from afo.embedding.exchange import Keys, Run
from afo.embedding.pooled_exchange import PooledExchange, ServerBags
from afo.job import Wire
from afo.models import wide_deep
from afo.models.feature_layout import Layout
from afo.state.step_exchange import Exchange
from afo.trainable.wide_deep_model import Samples


class Lists(NamedTuple):
    """The features that are pooled on the servers: the keys of `splits`, ascending; a nest of tensors."""

    keys: Keys
    bags: ServerBags
    #: By the feature's place in `Layout.sparse`: where its samples' ids begin, and what its ids weigh if not all 1.
    splits: dict[int, Any]
    weights: dict[int, Any]


class Inputs(NamedTuple):
    """A batch of B samples."""

    #: A set for each feature whose rows come to the worker, in the order of `Layout.sparse`, then one for each cross.
    keys: Keys
    lists: Lists
    #: `shares` of the former alone.
    samples: Samples


class AskedTables:
    """At most an exchange for each of: embeddings and linear weights, rows and sums."""

    def __init__(self, layout: Layout, inputs: Inputs, exchange: Exchange, wire: Wire) -> None:
        self._layout, self._far = layout, tuple(inputs.lists.splits)
        places = [place for place in range(len(layout.sparse)) if place not in self._far]
        #: Without the features that are pooled on the servers.
        self._near = replace(layout, sparse=tuple(layout.sparse[place] for place in places))
        self._rows: dict[str, TableExchange] = {}
        self._sums: dict[str, PooledExchange] = {}
        if exchange.parameters.embeddings is not None:  # else there are dense features alone
            self._make(exchange.parameters.embeddings, inputs, places, wire)
        for asked in self.exchanges:
            exchange.ask(asked)

    @property
    def exchanges(self) -> tuple[TableExchange | PooledExchange, ...]:
        """Gradients are taken of their `values`."""
        return (*self._rows.values(), *self._sums.values())

    def look_up(self, samples: Samples, tape: tf.GradientTape) -> tuple[Any, Any]:
        """Embeddings [B, features * dim] and linear part [B], of answers that `tape` watches; None for a part that the
        model lacks."""
        tape.watch([exchange.values for exchange in self.exchanges])
        return self._join_answers(samples)

    def _make(self, group: TableGroup, inputs: Inputs, places: Sequence[int], wire: Wire) -> None:
        layout = self._layout
        kinds = {"deep": (0, len(layout.deep_tables), tf.as_dtype(wire))}
        # Linear weights are few bytes, and their sums are the log odds themselves.
        kinds["wide"] = (len(layout.deep_tables), len(layout.wide_tables), tf.float32)
        for kind, (first, count, of_wire) in kinds.items():
            if not count:
                continue
            near = [first + place for place in (*places, *range(len(layout.sparse), count))]
            if near:
                runs = [Run(number) for number in range(len(near))]
                self._rows[kind] = TableExchange(group, near, inputs.keys, runs, insert=True, wire=of_wire)
            if self._far:
                self._sums[kind] = self._pool_lists(group, kind, first, inputs.lists, of_wire)

    def _pool_lists(self, group: TableGroup, kind: str, first: int, lists: Lists, wire: Any) -> PooledExchange:
        runs = []
        for number, place in enumerate(self._far):
            pooling = self._layout.sparse[place].pooling
            # Without a list's combiner the deep part takes the mean and the wide part the sum.
            combiner = pooling.combiner if pooling else "mean" if kind == "deep" else "sum"
            runs.append(Run(number, lists.splits[place], lists.weights.get(place), combiner))
        tables = [first + place for place in self._far]
        return PooledExchange(group, tables, lists.keys, lists.bags, runs, insert=True, wire=wire)

    def _join_answers(self, samples: Samples) -> tuple[Any, Any]:
        layout, near = self._layout, self._near
        size, counts = tf.shape(samples.label)[0], [column.values for column in near.sparse]
        embeddings = linear = None
        if layout.has_deep:
            rows = self._join_rows("deep", counts, size, layout.dim)
            embeddings = self._in_order(wide_deep.pool_embeddings(near, rows, samples.shares))
        if layout.has_wide:
            rows = self._join_rows("wide", counts + [1] * len(near.crosses), size, 1)[:, :, 0]
            linear = wide_deep.linear_sum(near, rows, samples.shares)
            if "wide" in self._sums:
                linear += tf.add_n(self._sums["wide"].pool())[:, 0]
        return embeddings, linear

    def _join_rows(self, kind: str, counts: list[int], size: Any, dim: int) -> Any:
        """The rows of all ids, `counts` of each run in a sample, side by side: [B, sum of the counts, dim]."""
        exchange, shape = self._rows.get(kind), [size, sum(counts), dim]
        if exchange is None:
            return tf.zeros(shape)
        if 1 in counts or len(counts) == 1:
            return tf.reshape(exchange.concat(), shape)
        # Side by side the operation has what belongs to one id of the feature with the fewest.
        parts = zip(exchange.pool(), counts, strict=True)
        return tf.concat([tf.reshape(rows, [size, count, dim]) for rows, count in parts], axis=1)

    def _in_order(self, near: Any) -> Any:
        """[B, features * dim] in the order of the layout, of the features whose rows came, [B, n * dim], and sums."""
        if "deep" not in self._sums:
            return near
        dim, sums = self._layout.dim, iter(self._sums["deep"].pool())
        found: list[Any] = []
        first = 0
        for is_far, places in groupby(range(len(self._layout.sparse)), lambda place: place in self._far):
            count = len(list(places))
            if is_far:
                found += [next(sums) for _ in range(count)]
            else:
                found.append(near[:, first * dim : (first + count) * dim])
                first += count
        return tf.concat(found, axis=1)

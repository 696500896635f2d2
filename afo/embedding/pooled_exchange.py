"""An exchange whose servers pool: a sum for each sample comes back instead of a row for each different id."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding.exchange import Asked, Keys, Run, table_update, unique_keys
from afo.embedding.group import TableGroup
from afo.ops.library import load


class Bag(NamedTuple):
    """Ids of several samples behind one another, without what counts for nothing."""

    #: int64 [n].
    ids: Any
    #: int64 [samples + 1]: where each sample's ids begin.
    splits: Any
    #: float32 [n]; None: all weigh 1.
    weights: Any


def bag_of(ids: Any, counts: Any, weights: Any) -> Bag:
    """Of ids [B, n] those that `counts` [B, n] names, or, if it is None, all; `weights` [B, n] or None."""
    size, values = tf.unstack(tf.shape(ids, tf.int64))
    if counts is None:
        flat = None if weights is None else tf.reshape(weights, [-1])
        return Bag(tf.reshape(ids, [-1]), tf.range(size + 1) * values, flat)
    lengths = tf.reduce_sum(tf.cast(counts, tf.int64), axis=1)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(lengths)], axis=0)
    return Bag(tf.boolean_mask(ids, counts), splits, None if weights is None else tf.boolean_mask(weights, counts))


class ServerBags(NamedTuple):
    """What each server has to know of every sample: what a worker can do before it asks; a nest of tensors."""

    #: How many samples each run has: int32 [runs].
    samples: Any
    #: For each server how many ids of each sample are its own, run by run: int32 [samples].
    lengths: tuple[Any, ...]
    #: For each server these ids as numbers of its keys, 16 bits or 32 each; one of both is empty.
    near: tuple[Any, ...]
    far: tuple[Any, ...]
    #: For each server what these ids weigh, or empty: float32.
    weights: tuple[Any, ...]


def server_bags(keys: Keys, runs: Sequence[Run]) -> ServerBags:
    """The bags of `runs` over the ids that `keys` were made of, in the same order."""
    if not runs:
        return ServerBags((), (), (), (), ())
    none_i, none_f = tf.zeros([0], tf.int64), tf.zeros([0], tf.float32)
    found = load().afo_bags_by_server(
        keys.splits,
        keys.places,
        keys.lengths,
        [none_i if run.bags is None else run.bags for run in runs],
        [none_f if run.weights is None else run.weights for run in runs],
    )
    parts = (found.lengths, found.near, found.far, found.server_weights)
    return ServerBags(found.samples, *(tuple(part) for part in parts))


class PooledExchange:
    """For bags of many ids, where the rows would be more bytes than the sums: a request (`afo.embedding.pull_push`).

    Weights have no gradient here: their rows never come to the worker.
    """

    def __init__(
        self, group: TableGroup, tables: Sequence[int], keys: Keys, bags: ServerBags, runs: Sequence[Run], *,
        insert: bool, wire: Any = tf.float32,
    ) -> None:  # fmt: skip
        """`tables`: which table of the group holds the rows of each set of `keys`; `bags`: of `runs`.

        `wire`: bfloat16 halves what sums and gradients cost on the network; servers compute in float32.
        """
        self._group = group
        self._numbers, self._runs = list(tables), list(runs)
        self._keys, self._bags = keys, bags
        self._attributes = {
            "numbers": self._numbers,
            "run_tables": [run.keys for run in runs],
            "max_norms": [run.max_norm or 0.0 for run in runs],
        }
        self._stores = [group.store(server) for server in range(group.servers)]
        self._insert, self.wire = insert, tf.as_dtype(wire)
        #: On each server what it was asked, without the counts, these, and the numbers of the rows that it found.
        self._there: dict[int, tuple[Any, ...]] = {}
        self._counts: dict[int, Any] = {}
        self._rows: dict[int, Any] = {}
        #: What each server answered, flat: what gradients are taken of. Once it was pulled.
        self.values: list[Any] = []

    def asked_of(self, server: int) -> list[Any]:
        """Keys and bags, and how often each key was among the ids."""
        keys, bags = self._keys, self._bags
        return [
            keys.keys[server], keys.splits[server], bags.samples, bags.lengths[server], bags.near[server],
            bags.far[server], bags.weights[server], keys.counts[server],
        ]  # fmt: skip

    def answer(self, server: int, asked: Sequence[Any]) -> list[Any]:
        """The sums, as they are on the network; the rows' numbers stay."""
        *there, self._counts[server] = asked
        self._there[server] = tuple(there)
        pooled, self._rows[server] = self._stores[server].call(
            "pool_rows", *there, insert=self._insert, T=self.wire, **self._attributes
        )
        return [pooled]

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        """They are `values`."""
        self.values = [values for (values,) in answers]

    def pool(self) -> list[Any]:
        """What the samples of each run see: float32 [samples, dim]."""
        flat = tf.add_n([tf.cast(values, tf.float32) for values in self.values])
        return [sums * _share(run) for sums, run in zip(self._by_run(flat), self._runs, strict=True)]

    def by_table(self, flat: Sequence[Any]) -> dict[str, Any]:
        """What lies as `values` do, by the name of the table: float32 [samples, dim], server by server."""
        found: dict[str, list[Any]] = {self._group.tables[number].name: [] for number in self._numbers}
        for values in flat:
            for run, part in zip(self._runs, self._by_run(tf.cast(values, tf.float32)), strict=True):
                found[self._group.tables[self._numbers[run.keys]].name].append(part)
        return {name: tf.concat(parts, axis=0) for name, parts in found.items()}

    def _by_run(self, flat: Any) -> list[Any]:
        dims = [self._group.tables[self._numbers[run.keys]].dim for run in self._runs]
        counts = tf.unstack(self._bags.samples, num=len(dims))
        parts = tf.split(flat, [count * dim for count, dim in zip(counts, dims, strict=True)], num=len(dims))
        return [tf.reshape(part, [-1, dim]) for part, dim in zip(parts, dims, strict=True)]

    def apply(self, gradients: Sequence[Any], *, step: Any, schedule: Any) -> list[Any]:
        """As `afo.embedding.exchange.Exchange.apply`."""
        return self._group.as_servers.push([table_update(self, gradients, step=step, schedule=schedule)])

    def apply_on(self, server: int, gradient: Any, schedule: Any, step: Any) -> Any:
        """The operation that applies a gradient of the server's `values`."""
        return self._stores[server].call(
            "apply_pooled", *self._there[server], self._rows[server], self._counts[server], gradient, schedule, step,
            **self._attributes,
        )  # fmt: skip


def pooled_exchange_of(
    group: TableGroup, asked: Sequence[Asked], *, insert: bool, wire: Any = tf.float32
) -> PooledExchange:
    """As `afo.embedding.exchange.exchange_of`."""
    tables = sorted({lookup.table for lookup in asked})
    sets = [tables.index(lookup.table) for lookup in asked]
    keys = unique_keys([lookup.ids for lookup in asked], sets, group.slots)
    runs = [Run(number, *lookup[2:]) for number, lookup in zip(sets, asked, strict=True)]
    return PooledExchange(group, tables, keys, server_bags(keys, runs), runs, insert=insert, wire=wire)


def _share(run: Run) -> Any:
    """What a sample's sum is multiplied by: [samples, 1], or 1."""
    if run.combiner in (None, "sum") or run.bags is None:
        return 1.0
    power = 1 if run.combiner == "mean" else 2
    if run.weights is None:
        total = tf.cast(run.bags[1:] - run.bags[:-1], tf.float32)
    else:
        weights = tf.stop_gradient(run.weights)
        total = tf.reduce_sum(tf.RaggedTensor.from_row_splits(weights**power, run.bags, validate=False), axis=1)
    return tf.math.divide_no_nan(1.0, total ** (1 / power))[:, tf.newaxis]

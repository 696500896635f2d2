"""An exchange with the embedding servers: the keys of all features of a batch, their rows, and later the gradients."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from afo.embedding.group import TableGroup
from afo.embedding.pool_gradients import COMBINERS
from afo.ops.library import load


class Keys(NamedTuple):
    """The different keys of several sets, by server: what a worker can do before it asks them; a nest of tensors.

    Equal keys of two sets are two keys.

    Several tables may be asked for one set: what a feature's embedding and its linear weight have in common.
    """

    #: For each server its keys, set by set: int64 [n].
    keys: tuple[Any, ...]
    #: For each server where in them each set begins, and their number: int32 [sets + 1].
    splits: tuple[Any, ...]
    #: For each server how often each key was among the ids: int32 [n].
    counts: tuple[Any, ...]
    #: The place of each id's key (afo/core/unique.h), run by run: int32 [ids].
    places: Any
    #: How many ids each run has: int64 [runs].
    lengths: Any

    @property
    def sets(self) -> int:
        """How many sets of keys there are."""
        return int(self.splits[0].shape[0]) - 1 if self.splits else 0


def unique_keys(ids: Sequence[Any], sets: Sequence[int], servers: int) -> Keys:
    """`ids`: int64 [n] each. `sets`: to which set each of them belongs; all numbers from 0 on."""
    if not ids:
        return Keys((), (), (), (), ())
    found = load().afo_unique(ids, run_tables=list(sets), num_tables=max(sets) + 1, num_servers=servers)
    return Keys(tuple(found.keys), tuple(found.splits), tuple(found.counts), found.places, found.lengths)


class Asked(NamedTuple):
    """What one feature wants to know."""

    #: Number of the table in the group.
    table: int
    #: int64 [n].
    ids: Any
    #: int64 [samples + 1]: where each sample's ids begin; None: each id is a sample.
    bags: Any = None
    #: float32 [n], or None for ones.
    weights: Any = None
    combiner: str | None = None
    max_norm: float | None = None


class Run(NamedTuple):
    """What is made of the rows of one run of ids; the fields as those of `Asked`."""

    #: Number of the set that its keys are in.
    keys: int
    bags: Any = None
    weights: Any = None
    combiner: str | None = None
    max_norm: float | None = None


class Exchange:
    """Asks each server once for the rows of all keys, whatever the number of tables and features."""

    def __init__(
        self, group: TableGroup, tables: Sequence[int], keys: Keys, runs: Sequence[Run], *, insert: bool,
        wire: Any = tf.float32,
    ) -> None:  # fmt: skip
        """`tables`: which table of the group holds the rows of each of the first sets of `keys`; `runs`: of the ids in
        these sets, the first ones. `insert`: a key that is new gets a row; without it, its first values alone.
        `wire`: bfloat16 halves what rows and gradients cost on the network; both sides compute in float32.
        """
        self._ops = load()
        self._wire = wire
        self._group = group
        self._numbers = list(tables)
        self._runs = list(runs)
        self._keys = keys
        self._splits = [splits[: len(self._numbers) + 1] for splits in keys.splits]
        self._handles = [group.handle(server) for server in range(group.servers)]
        self._there = [self._send_keys(keys, server) for server in range(group.servers)]
        answers = [self._lookup(server, insert) for server in range(group.servers)]
        #: What each server answered, flat: what gradients are taken of.
        self.values = [values for values, _ in answers]
        self._rows = [rows for _, rows in answers]

    def pool(self) -> list[Any]:
        """What the samples of each run see: float32 [samples, dim]."""
        return self._pool(len(self._runs))

    def concat(self) -> Any:
        """The same side by side: float32 [samples, all widths], out of one operation.

        A run without bags may have several ids a sample, whose rows are then behind one another; a single run always
        gives a row for each of its ids.
        """
        return self._pool(1)[0]

    def _pool(self, outputs: int) -> list[Any]:
        bags = {number: run.bags for number, run in enumerate(self._runs) if run.bags is not None}
        weights = {number: run.weights for number, run in enumerate(self._runs) if run.weights is not None}
        pooled = self._ops.afo_pool(
            [tf.cast(values, tf.float32) for values in self.values],
            self._splits,
            self._keys.places,
            self._keys.lengths,
            list(bags.values()),
            list(weights.values()),
            bag_runs=list(bags),
            weight_runs=list(weights),
            run_tables=[run.keys for run in self._runs],
            dims=[self._group.tables[number].dim for number in self._numbers],
            combiners=[COMBINERS[run.combiner] for run in self._runs],
            max_norms=[run.max_norm or 0.0 for run in self._runs],
            num_outputs=outputs,
        )
        return list(pooled)

    def apply(self, gradients: Sequence[Any], *, step: Any, schedule: Any) -> list[Any]:
        """Has each server apply the gradients of its `values` (None: it has none); returns the operations.

        `step` of the training goes into the rows; `schedule` multiplies the learning rates.
        """
        operations = []
        for server, gradient in enumerate(gradients):
            if gradient is None:
                continue
            keys, splits, counts = self._there[server]
            with tf.device(self._group.devices[server]):
                operations.append(
                    self._ops.afo_apply_rows(
                        self._handles[server],
                        keys,
                        splits,
                        self._rows[server],
                        counts,
                        tf.cast(gradient, tf.float32),
                        tf.cast(schedule, tf.float32),
                        tf.cast(step, tf.int64),
                        numbers=self._numbers,
                    )
                )
        return operations

    def by_table(self, flat: Sequence[Any]) -> dict[str, Any]:
        """What lies as `values` do, by the name of the table: float32 [keys, dim], server by server."""
        found: dict[str, list[Any]] = {self._group.tables[number].name: [] for number in self._numbers}
        for splits, values in zip(self._splits, flat, strict=True):
            dims = [self._group.tables[number].dim for number in self._numbers]
            parts = tf.split(values, (splits[1:] - splits[:-1]) * tf.constant(dims), num=len(dims))
            for name, part, dim in zip(found, parts, dims, strict=True):
                found[name].append(tf.reshape(part, [-1, dim]))
        return {name: tf.concat(parts, axis=0) for name, parts in found.items()}

    def times(self, flat: Sequence[Any], factors: Mapping[str, Any]) -> list[Any]:
        """What lies as `values` do, that of each table multiplied by its factor, a scalar by the name of the table."""
        dims = tf.constant([self._group.tables[number].dim for number in self._numbers])
        by_table = tf.stack([factors[self._group.tables[number].name] for number in self._numbers])
        return [
            values * tf.cast(tf.repeat(by_table, (splits[1:] - splits[:-1]) * dims), values.dtype)
            for splits, values in zip(self._splits, flat, strict=True)
        ]

    def _send_keys(self, keys: Keys, server: int) -> tuple[Any, Any, Any]:
        """Keys, splits and counts as the server is to read them. Sent once, also where it is asked for fewer sets."""
        splits = keys.splits[server]
        if len(self._numbers) == keys.sets:
            return keys.keys[server], splits, keys.counts[server]
        with tf.device(self._group.devices[server]):
            end = splits[len(self._numbers)]
            return keys.keys[server][:end], splits[: len(self._numbers) + 1], keys.counts[server][:end]

    def _lookup(self, server: int, insert: bool) -> tuple[Any, Any]:
        """Values, as they are on the network, and what the server has to know of them."""
        keys, splits, _ = self._there[server]
        with tf.device(self._group.devices[server]):
            found = self._ops.afo_lookup_rows(self._handles[server], keys, splits, numbers=self._numbers, insert=insert)
            return tf.cast(found.values, self._wire), found.rows


def exchange_of(group: TableGroup, asked: Sequence[Asked], *, insert: bool, wire: Any = tf.float32) -> Exchange:
    """An exchange of the rows that some features ask for; those of one table share its keys."""
    tables = sorted({lookup.table for lookup in asked})
    sets = [tables.index(lookup.table) for lookup in asked]
    keys = unique_keys([lookup.ids for lookup in asked], sets, group.servers)
    runs = [Run(number, *lookup[2:]) for number, lookup in zip(sets, asked, strict=True)]
    return Exchange(group, tables, keys, runs, insert=insert, wire=wire)

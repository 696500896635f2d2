"""An exchange with the embedding servers: the keys of all features of a batch, their rows, and later the gradients."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from afo.embedding.group import TableGroup
from afo.embedding.pool_gradients import COMBINERS
from afo.embedding.pull_push import Narrowed
from afo.ops.library import load
from afo.tables.slot_map import SlotMap


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


def unique_keys(ids: Sequence[Any], sets: Sequence[int], slots: SlotMap) -> Keys:
    """`ids`: int64 [n] each. `sets`: to which set each of them belongs; all numbers from 0 on. `slots`: of the servers
    that are asked."""
    if not ids:
        return Keys((), (), (), (), ())
    found = load().afo_unique(
        ids, run_tables=list(sets), num_tables=max(sets) + 1, num_servers=slots.servers, slot_starts=slots.starts
    )
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
    """The rows of all keys, whatever the number of tables and features: a request (`afo.embedding.pull_push`)."""

    def __init__(
        self, group: TableGroup, tables: Sequence[int], keys: Keys, runs: Sequence[Run], *, insert: bool,
        wire: Any = tf.float32,
    ) -> None:  # fmt: skip
        """`tables`: which table of the group holds the rows of each of the first sets of `keys`; `runs`: of the ids in
        these sets, the first ones. `insert`: a key that is new gets a row; without it, its first values alone.
        `wire`: bfloat16 halves what rows and gradients cost on the network; both sides compute in float32.
        """
        self._ops = load()
        self.wire = tf.as_dtype(wire)
        self._group = group
        self._numbers = list(tables)
        self._runs = list(runs)
        self._keys = keys
        self._splits = [splits[: len(self._numbers) + 1] for splits in keys.splits]
        self._stores = [group.store(server) for server in range(group.servers)]
        self._insert = insert
        #: On each server: keys, splits and counts, and the numbers of the rows that it found.
        self._there: dict[int, tuple[Any, Any, Any]] = {}
        self._rows: dict[int, Any] = {}
        #: What each server answered, flat: what gradients are taken of. Once it was pulled.
        self.values: list[Any] = []

    def asked_of(self, server: int) -> list[Any]:
        """Keys, where each set of them begins, and how often each was among the ids."""
        keys = self._keys
        return [keys.keys[server], keys.splits[server], keys.counts[server]]

    def answer(self, server: int, asked: Sequence[Any]) -> list[Any]:
        """The rows, as they are on the network; their numbers stay."""
        # There may be more sets than tables here: the first ones are meant, and all are sent once.
        keys, splits, counts = asked
        self._there[server] = keys, splits, counts
        values, self._rows[server] = self._stores[server].call(
            "lookup_rows", keys, splits, numbers=self._numbers, insert=self._insert
        )
        return [Narrowed(values, self.wire)]

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        """They are `values`."""
        self.values = [values for (values,) in answers]

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
            self.values,
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
        return self._group.as_servers.push([table_update(self, gradients, step=step, schedule=schedule)])

    def apply_on(self, server: int, gradient: Any, schedule: Any, step: Any) -> Any:
        """The operation that applies a gradient of the server's `values`."""
        keys, splits, counts = self._there[server]
        return self._stores[server].call(
            "apply_rows", keys, splits, self._rows[server], counts, gradient, schedule, step, numbers=self._numbers
        )

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


class _Applicable(Protocol):
    """`Exchange`, or `afo.embedding.pooled_exchange.PooledExchange`."""

    @property
    def wire(self) -> Any: ...
    def apply_on(self, server: int, gradient: Any, schedule: Any, step: Any) -> Any: ...


class TableUpdate(NamedTuple):
    """Gradients of an exchange's `values` by server, None where one has none: an update (`pull_push`)."""

    exchange: _Applicable
    gradients: Sequence[Any]
    schedule: Any
    step: Any

    def given_to(self, server: int) -> list[Any]:
        """The gradient, the learning rates' factor and the step."""
        gradient = self.gradients[server]
        return [] if gradient is None else [Narrowed(gradient, self.exchange.wire), self.schedule, self.step]

    def apply(self, server: int, given: Sequence[Any]) -> list[Any]:
        """By the rule of each table."""
        return [self.exchange.apply_on(server, *given)] if given else []


def table_update(exchange: _Applicable, gradients: Sequence[Any], *, step: Any, schedule: Any) -> TableUpdate:
    """The fields as tensors."""
    dense = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
    return TableUpdate(exchange, dense, tf.cast(schedule, tf.float32), tf.cast(step, tf.int64))


def exchange_of(group: TableGroup, asked: Sequence[Asked], *, insert: bool, wire: Any = tf.float32) -> Exchange:
    """An exchange of the rows that some features ask for; those of one table share its keys."""
    tables = sorted({lookup.table for lookup in asked})
    sets = [tables.index(lookup.table) for lookup in asked]
    keys = unique_keys([lookup.ids for lookup in asked], sets, group.slots)
    runs = [Run(number, *lookup[2:]) for number, lookup in zip(sets, asked, strict=True)]
    return Exchange(group, tables, keys, runs, insert=insert, wire=wire)

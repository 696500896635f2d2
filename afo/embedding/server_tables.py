"""Requests to one embedding server outside of a training step."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import tensorflow as tf

from afo.embedding.initializers import Initializer
from afo.embedding.stores import Server, Store
from afo.job import Eviction, Filter, RowClipping, UpdateRule, ValueDtype
from afo.tables.slot_map import SlotMap

_INT = tf.TensorSpec([], tf.int64)
_INTS = tf.TensorSpec([None], tf.int64)


class Table(NamedTuple):
    """What a table of a group is; its number in the group stands for it in the operations."""

    name: str
    dim: int
    optimizer: UpdateRule
    initializer: Initializer
    #: Parts with a lock of their own on a server: 2 to the power of this. `TableGroup` decides.
    shard_bits: int = 4
    filter: Filter = Filter()
    eviction: Eviction = Eviction()
    clipping: RowClipping = RowClipping()
    #: Of the weights on the servers; everywhere else they are float32.
    value_dtype: ValueDtype = "float32"

    def options(self) -> dict[str, float]:
        """Of the optimizer, by the names that `OptimizerOptions` (afo/core/optimizer.h) has for them."""
        clipping = {"clip_value": self.clipping.value, "clip_norm": self.clipping.norm}
        return self.optimizer.numbers | {name: limit for name, limit in clipping.items() if limit is not None}


class ServerTables:
    """The tables of a group on one of its servers."""

    def __init__(self, server: Server, number: int, slots: SlotMap, tables: Sequence[Table]) -> None:
        """`number`: of the server in the slot map."""
        self._server, self._number, self._slots = server, number, slots
        self._tables = tuple(tables)
        self._numbers = list(range(len(tables)))
        self._removals: dict[int, Any] = {}

    def create(self, first: int = 0) -> None:
        """Creates the tables from number `first` on. One that is there already as it should be stays as it is."""

        def create(store: Store) -> None:
            for number, table in list(enumerate(self._tables))[first:]:
                _add(store, number, table)

        self._server.trace(create)()

    def sizes(self) -> tuple[Any, Any]:
        """(keys, bytes) of each table: int64 numpy arrays."""
        keys, size = self._sizes()
        return keys.numpy(), size.numpy()

    def begin_epoch(self) -> tuple[Any, Any]:
        """(epochs that begin, updates so far) of each table: int64 numpy arrays."""
        epochs, powers = self._begin_epoch()
        return epochs.numpy(), powers.numpy()

    def ask(self, asker: str, request: bytes) -> bytes:
        """As `Server.ask_desk`."""
        return self._server.ask_desk(asker, request)

    def forget_removed(self, before: Sequence[int]) -> None:
        """What was removed before these epochs, one a table, need not be known any more."""
        self._forget_removed(tf.constant(before, tf.int64))

    def set_powers(self, powers: Sequence[int]) -> None:
        """How many updates each table has had."""
        self._set_powers(tf.constant(powers, tf.int64))

    def clear(self) -> None:
        """Removes all rows of all tables."""
        self._clear()

    def evict(self, step: int, oldest: Sequence[int]) -> Any:
        """Removes rows by each table's policy and those older than its `oldest`; returns how many: int64 numpy array.

        `oldest` is the same for tables of the same `unused_time`.
        """
        found = np.zeros(len(self._tables), np.int64)
        for numbers, evict in self._evictions:
            bound = tf.constant(oldest[numbers[0]], tf.int64)
            found[numbers] = evict(tf.constant(step, tf.int64), bound).numpy()
        return found

    def remove(self, number: int, keys: Any) -> int:
        """Removes rows of one table; returns how many there were."""
        if number not in self._removals:
            self._removals[number] = self._trace("remove_rows", _INTS, number=number)
        return int(self._removals[number](tf.cast(keys, tf.int64)))

    @cached_property
    def _sizes(self) -> Any:
        return self._trace("table_sizes", numbers=self._numbers)

    @cached_property
    def _begin_epoch(self) -> Any:
        return self._trace("begin_epoch", numbers=self._numbers)

    @cached_property
    def _forget_removed(self) -> Any:
        return self._trace("forget_removed", _INTS, numbers=self._numbers)

    @cached_property
    def _set_powers(self) -> Any:
        return self._trace("set_powers", _INTS, numbers=self._numbers)

    @cached_property
    def _clear(self) -> Any:
        return self._trace("clear_tables", numbers=self._numbers)

    @cached_property
    def _evictions(self) -> list[tuple[list[int], Any]]:
        """For each `unused_time` the tables that have it, and how they are asked."""
        by_time: dict[float | None, list[int]] = {}
        for number, table in enumerate(self._tables):
            by_time.setdefault(table.eviction.unused_time, []).append(number)
        return [(numbers, self._eviction(numbers)) for numbers in by_time.values()]

    def _eviction(self, numbers: list[int]) -> Any:
        policies = [self._tables[number].eviction for number in numbers]
        return self._trace(
            "evict_rows", _INT, _INT,
            numbers=numbers,
            unused_steps=[eviction.unused_steps for eviction in policies],
            l2_weights=[eviction.l2_weight for eviction in policies],
            capacities=[self._capacity_of(eviction) for eviction in policies],
        )  # fmt: skip

    def _capacity_of(self, eviction: Eviction) -> int:
        """Its part of a table's rows. 0 would be no limit, and stays where the table has none."""
        return min(eviction.capacity, max(1, self._slots.share_of(self._number, eviction.capacity)))

    def _trace(self, function: str, *signature: Any, **attributes: Any) -> Any:
        return self._server.trace(lambda store, *given: store.call(function, *given, **attributes), *signature)


def _add(store: Store, number: int, table: Table) -> None:
    options, admission = table.options(), msgspec.structs.asdict(table.filter)
    initializer = table.initializer.options()
    store.call(
        "add_table",
        number=number,
        dim=table.dim,
        rule=table.optimizer.key,
        slots=table.optimizer.slots,
        option_names=list(options),
        options=list(options.values()),
        distribution=table.initializer.distribution,
        initializer_names=list(initializer),
        initializer=list(initializer.values()),
        seed=table.initializer.seed,
        shard_bits=table.shard_bits,
        value_dtype=tf.as_dtype(table.value_dtype),
        **admission,
    )

"""afo's engine as a side of the benchmark of embedding tables: its operations as a step uses them."""

import itertools
import platform
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import sparse_load as load
import tensorflow as tf
from sides import arguments, resident, serve, timed

from afo.embedding import SlotMap, TableGroup, get_embedding_variable
from afo.job import Adagrad, Adam, UpdateRule
from afo.ops.library import load as operations

BATCHES, WARM = 16, 3
Case = Callable[[int], list[float]]
IDS = tf.TensorSpec([None], tf.int64)
NUMBERS = tf.TensorSpec([None], tf.int32)
ROWS = tf.TensorSpec([None, load.DIM], tf.float32)


class Batches:
    """The load as tensors, made once."""

    def __init__(self, keys: int) -> None:
        drawn = load.batches(BATCHES, seed=11, keys=keys)
        self.ids = [tf.constant(batch.ids) for batch in drawn]
        self.unique_ids = [tf.constant(batch.unique_ids) for batch in drawn]
        self.unique = float(np.mean([len(batch.unique_rows) for batch in drawn]))
        self.gradients = tf.constant(load.gradients(load.IDS))
        self.unique_gradients = [tf.constant(load.gradients(load.IDS)[: len(batch.unique_rows)]) for batch in drawn]


class Tables:
    """Tables of all keys by optimizer, each loaded when a case first needs it."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._ops = operations()

    @cached_property
    def adam(self) -> TableGroup:
        """Weights, m and v."""
        return self._filled("adam", Adam())

    @cached_property
    def adagrad(self) -> TableGroup:
        """Weights and sums of squares."""
        return self._filled("adagrad", Adagrad())

    def empty(self, name: str) -> TableGroup:
        """No keys yet."""
        group = TableGroup(name=f"bench/{name}")
        get_embedding_variable("v", load.DIM, optimizer=Adam(), group=group)
        return group

    def _filled(self, name: str, optimizer: UpdateRule) -> TableGroup:
        group = TableGroup(name=f"bench/{name}")
        get_embedding_variable("v", load.DIM, optimizer=optimizer, group=group)
        for keys in load.all_keys(self._keys):
            self._ops.afo_lookup_rows(group.link(0).handle(), keys, [0, len(keys)], numbers=[0], insert=True)
        return group


def graph(*signature: tf.TensorSpec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A `tf.function` of a fixed signature, traced once."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        return tf.function(function, input_signature=list(signature)).get_concrete_function()

    return wrap


def turns(call: Callable[..., object], *columns: list[Any]) -> Case:
    """A case that calls with the next batch each time, warm before it is timed."""
    numbers = itertools.count()

    def once(_: int) -> None:
        number = next(numbers)
        call(*(column[number % len(column)] for column in columns))

    def case(calls: int) -> list[float]:
        timed(WARM, once)
        return timed(calls, once)

    return case


def pooled(values: list[Any], unique: Any) -> Any:
    """Rows back to the places of the batch."""
    return operations().afo_pool(
        values, unique.splits, unique.places, unique.lengths, [], [],
        bag_runs=[], weight_runs=[], run_tables=[0], dims=[load.DIM], combiners=[0], max_norms=[0.0], num_outputs=1,
    )[0]  # fmt: skip


def summed(gradients: Any, values: list[Any], unique: Any) -> Any:
    """Gradients of equal ids, summed."""
    return operations().afo_pool_gradient(
        [gradients], values, unique.splits, unique.places, unique.lengths, [], [],
        bag_runs=[], weight_runs=[], run_tables=[0], dims=[load.DIM], combiners=[0], max_norms=[0.0],
    )  # fmt: skip


def unique_partition(parts: int, batches: Batches) -> Case:
    """Different ids by part; a row for each from its part, and back to the places of the batch."""
    local = [tf.constant(load.gradients(load.IDS)) for _ in range(parts)]

    @graph(IDS)
    def call(ids: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        starts = SlotMap.equal(parts).starts
        unique = operations().afo_unique([ids], run_tables=[0], num_tables=1, num_servers=parts, slot_starts=starts)
        rows = [
            tf.reshape(tf.gather(table, tf.range(tf.size(keys))), [-1])
            for table, keys in zip(local, unique.keys, strict=True)
        ]
        return pooled(rows, unique), unique.keys

    return turns(call, batches.ids)


def lookup(group: TableGroup, batches: Batches) -> Case:
    """Rows of keys, as a step asks for them: new keys would get a row."""
    handle = group.link(0).handle()

    @graph(IDS)
    def call(keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return operations().afo_lookup_rows(handle, keys, [0, tf.size(keys)], numbers=[0], insert=True)

    return turns(call, batches.unique_ids)


def apply(group: TableGroup, batches: Batches) -> Case:
    """The optimizer alone, with the row numbers that the lookup of the step gave."""
    handle = group.link(0).handle()
    rows = [
        operations().afo_lookup_rows(handle, keys, [0, len(keys)], numbers=[0], insert=True).rows
        for keys in batches.unique_ids
    ]

    @graph(IDS, NUMBERS, ROWS)
    def call(keys: tf.Tensor, numbers: tf.Tensor, gradients: tf.Tensor) -> None:
        applied(handle, keys, [0, tf.size(keys)], numbers, [], gradients)

    return turns(call, batches.unique_ids, rows, batches.unique_gradients)


def applied(handle: Any, keys: Any, splits: Any, rows: Any, counts: Any, gradients: Any) -> None:
    """One update."""
    operations().afo_apply_rows(
        handle, keys, splits, rows, tf.cast(counts, tf.int32), tf.reshape(gradients, [-1]), 1.0,
        tf.constant(1, tf.int64), numbers=[0],
    )  # fmt: skip


def step(group: TableGroup, batches: Batches) -> Case:
    """A whole local step: different keys, lookup, back to the batch; gradients summed and applied."""
    handle = group.link(0).handle()

    @graph(IDS, ROWS)
    def call(ids: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        unique = operations().afo_unique([ids], run_tables=[0], num_tables=1, num_servers=1, slot_starts=[0])
        keys, splits = unique.keys[0], unique.splits[0]
        values, rows = operations().afo_lookup_rows(handle, keys, splits, numbers=[0], insert=True)
        batch = pooled([values], unique)
        sums = summed(gradients, [values], unique)[0]
        with tf.control_dependencies([batch]):
            applied(handle, keys, splits, rows, unique.counts[0], sums)
        return batch

    return turns(call, batches.ids, [batches.gradients])


def insert(tables: Tables) -> Case:
    """New keys with their first values, into a table that is empty before each measurement."""
    numbers = itertools.count()

    def case(calls: int) -> list[float]:
        group = tables.empty(f"insert{next(numbers)}")
        handle = group.link(0).handle()
        fresh = [tf.constant(keys) for keys in load.fresh_keys(calls)]
        seconds = timed(
            calls,
            lambda number: operations().afo_lookup_rows(
                handle, fresh[number], [0, load.FRESH], numbers=[0], insert=True
            ),
        )
        operations().afo_clear_tables(handle, numbers=[0])
        return seconds

    return case


def makers(tables: Tables, batches: Batches) -> dict[str, Callable[[], Case]]:
    """What makes each case, with the tables it needs."""
    return {
        "unique_partition_4": lambda: unique_partition(4, batches),
        "unique_partition_8": lambda: unique_partition(8, batches),
        "lookup": lambda: lookup(tables.adam, batches),
        "apply_adam": lambda: apply(tables.adam, batches),
        "step_adam": lambda: step(tables.adam, batches),
        "lookup_adagrad": lambda: lookup(tables.adagrad, batches),
        "apply_adagrad": lambda: apply(tables.adagrad, batches),
        "insert": lambda: insert(tables),
    }


def main() -> None:
    """Load what the asked cases need and serve them."""
    given = arguments(list(makers(None, None)), load.KEYS)  # type: ignore[arg-type]
    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    tf.config.threading.set_inter_op_parallelism_threads(given.threads)
    batches, tables = Batches(given.keys), Tables(given.keys)
    before = resident()
    made = makers(tables, batches)
    cases = {name: made[name]() for name in given.cases}
    about = {
        "versions": {"python": platform.python_version(), "tensorflow": tf.__version__},
        "keys": given.keys,
        "threads": given.threads,
        "resident_before": before,
        "resident_after": resident(),
        "units": {name: load.FRESH if name == "insert" else batches.unique for name in cases},
    }
    serve(cases, about)


if __name__ == "__main__":
    main()

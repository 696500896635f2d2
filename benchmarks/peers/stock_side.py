"""TensorFlow's own operators as a side of the benchmark of embedding tables.

Every case is one call of a `tf.function` whose result is returned, so that no part of it is pruned. Only the tables
that the asked cases need are loaded. `touch_memory` is no operator: it is what fresh memory costs on this machine.
"""

import itertools
import mmap
import platform
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import sparse_load as load
import tensorflow as tf
from sides import arguments, resident, serve, timed

BATCHES, WARM = 16, 3
LEARNING_RATE, EPSILON = 0.01, 1e-7
#: Places of the table with open addressing for each key: 10 M keys fill 60 % of 2**24.
PLACES_A_KEY = 1.67

Case = Callable[[int], list[float]]
Table = Any
IDS = tf.TensorSpec([None], tf.int64)
ROWS = tf.TensorSpec([None, load.DIM], tf.float32)
HANDLE = tf.TensorSpec([], tf.resource)


class Batches:
    """The load as tensors, made once, so that a timed call gets what is there already."""

    def __init__(self, keys: int) -> None:
        drawn = load.batches(BATCHES, seed=11, keys=keys)
        self.rows = [tf.constant(batch.rows) for batch in drawn]
        self.ids = [tf.constant(batch.ids) for batch in drawn]
        self.unique_rows = [tf.constant(batch.unique_rows) for batch in drawn]
        self.unique_ids = [tf.constant(batch.unique_ids) for batch in drawn]
        self.unique = float(np.mean([len(batch.unique_rows) for batch in drawn]))
        self.gradients = tf.constant(load.gradients(load.IDS))
        self.unique_gradients = [tf.constant(load.gradients(load.IDS)[: len(batch.unique_rows)]) for batch in drawn]


class Tables:
    """Tables of all keys, each loaded when a case first needs it."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    @cached_property
    def dense(self) -> tf.Variable:
        """A row per key; whoever uses it knows the rows already."""
        return tf.Variable(tf.random.stateless_uniform([self._keys, load.DIM], [1, 2]) * 0.1)

    @cached_property
    def accumulator(self) -> tf.Variable:
        """AdaGrad's slot of `dense`."""
        return tf.Variable(tf.fill([self._keys, load.DIM], 0.1))

    @cached_property
    def mutable(self) -> Table:
        """`MutableHashTable` with every key."""
        return self._filled(mutable_table())

    @cached_property
    def dense_hash(self) -> Table:
        """`DenseHashTable` with every key, sized so that it never grows."""
        empty, deleted = load.unused_keys()
        return self._filled(
            tf.lookup.experimental.DenseHashTable(
                key_dtype=tf.int64,
                value_dtype=tf.float32,
                default_value=[0.0] * load.DIM,
                empty_key=empty,
                deleted_key=deleted,
                initial_num_buckets=1 << int(np.ceil(np.log2(self._keys * PLACES_A_KEY))),
            )
        )

    def _filled(self, table: Table) -> Table:
        for keys in load.all_keys(self._keys):
            table.insert(keys, load.gradients(len(keys)))
        return table


def mutable_table() -> Table:
    """An empty `MutableHashTable`."""
    return tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=[0.0] * load.DIM)


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


def unique_partition(parts: int, batches: Batches) -> Case:
    """Different ids, divided over `parts`; a row for each from its part, and back to the places of the batch.

    The rows of all parts stand one after another, and one gather takes them to the batch.
    """
    local = [tf.constant(load.gradients(load.IDS)) for _ in range(parts)]

    @graph(IDS)
    def call(ids: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        unique, inverse = tf.unique(ids)
        part = tf.cast(tf.math.floormod(unique, parts), tf.int32)
        lists = tf.dynamic_partition(unique, part, parts)
        places = tf.concat(tf.dynamic_partition(tf.range(tf.size(unique)), part, parts), 0)
        rows = [tf.gather(table, tf.range(tf.size(each))) for table, each in zip(local, lists, strict=True)]
        return tf.gather(tf.concat(rows, 0), tf.gather(tf.math.invert_permutation(places), inverse)), lists

    return turns(call, batches.ids)


def unique_partition_stitch(parts: int, batches: Batches) -> Case:
    """The same by `dynamic_stitch`; which of both is faster differs from run to run."""
    local = [tf.constant(load.gradients(load.IDS)) for _ in range(parts)]

    @graph(IDS)
    def call(ids: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        unique, inverse = tf.unique(ids)
        part = tf.cast(tf.math.floormod(unique, parts), tf.int32)
        lists = tf.dynamic_partition(unique, part, parts)
        places = tf.dynamic_partition(tf.range(tf.size(unique)), part, parts)
        rows = [tf.gather(table, tf.range(tf.size(each))) for table, each in zip(local, lists, strict=True)]
        return tf.gather(tf.dynamic_stitch(places, rows), inverse), lists

    return turns(call, batches.ids)


def lookup(table: Table, ids: list[tf.Tensor]) -> Case:
    """Rows of keys from a hash table."""
    return turns(graph(IDS)(table.lookup), ids)


def lookup_gather(tables: Tables, rows: list[tf.Tensor]) -> Case:
    """Rows of the dense variable."""
    handle = tables.dense.handle

    @graph(IDS)
    def call(wanted: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.ResourceGather(resource=handle, indices=wanted, dtype=tf.float32)

    return turns(call, rows)


def adagrad(tables: Tables) -> Callable[[tf.Tensor, tf.Tensor], tf.Operation]:
    """What applies AdaGrad to rows of the dense variable; made outside of a graph, as its slot is."""
    weights, slot = tables.dense.handle, tables.accumulator.handle

    def apply(gradients: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=weights, accum=slot, lr=LEARNING_RATE, epsilon=EPSILON, grad=gradients, indices=rows
        )

    return apply


def apply_adagrad(tables: Tables, batches: Batches) -> Case:
    """AdaGrad alone, a gradient for each different row."""
    apply = adagrad(tables)

    @graph(IDS, ROWS)
    def call(rows: tf.Tensor, gradients: tf.Tensor) -> None:
        apply(gradients, rows)

    return turns(call, batches.unique_rows, batches.unique_gradients)


def step_adagrad(tables: Tables, batches: Batches) -> Case:
    """A whole local step: different rows, gather, back to the batch; gradients summed, AdaGrad applied."""
    apply, handle = adagrad(tables), tables.dense.handle

    @graph(IDS, ROWS)
    def call(rows: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        unique, inverse = tf.unique(rows)
        weights = tf.raw_ops.ResourceGather(resource=handle, indices=unique, dtype=tf.float32)
        batch = tf.gather(weights, inverse)
        summed = tf.math.unsorted_segment_sum(gradients, inverse, tf.size(unique))
        with tf.control_dependencies([batch]):
            apply(summed, unique)
        return batch

    return turns(call, batches.rows, [batches.gradients])


def step_sgd(table: Table, batches: Batches) -> Case:
    """The same on a hash table, whose only update is to put a row: w - lr * g."""

    @graph(IDS, ROWS)
    def call(ids: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        unique, inverse = tf.unique(ids)
        weights = table.lookup(unique)
        summed = tf.math.unsorted_segment_sum(gradients, inverse, tf.size(unique))
        table.insert(unique, weights - LEARNING_RATE * summed)
        return tf.gather(weights, inverse)

    return turns(call, batches.ids, [batches.gradients])


def insert_mutable() -> Case:
    """New keys into a `MutableHashTable`, empty before each measurement: 100 calls fill it with 10 M."""

    @graph(HANDLE, IDS, ROWS)
    def call(handle: tf.Tensor, ids: tf.Tensor, values: tf.Tensor) -> None:
        tf.raw_ops.LookupTableInsertV2(table_handle=handle, keys=ids, values=values)

    values = tf.constant(load.gradients(load.FRESH))

    def case(calls: int) -> list[float]:
        table = mutable_table()
        fresh = [tf.constant(keys) for keys in load.fresh_keys(calls)]
        return timed(calls, lambda number: call(table.resource_handle, fresh[number], values))

    return case


def touch_memory(calls: int) -> list[float]:
    """Write one byte of every page of memory that is fresh: as much as the keys of one inserting call take."""
    maps: list[mmap.mmap] = []
    pages: list[np.ndarray[Any, Any]] = []

    def touch(_: int) -> None:
        maps.append(mmap.mmap(-1, load.FRESH * load.BYTES_A_KEY))
        pages.append(np.frombuffer(maps[-1], np.uint8)[:: mmap.PAGESIZE])
        pages[-1][:] = 1

    seconds = timed(calls, touch)
    pages.clear()
    for each in maps:
        each.close()
    return seconds


def makers(tables: Tables, batches: Batches) -> dict[str, Callable[[], Case]]:
    """What makes each case, with the tables it needs."""
    return {
        "unique_partition_4": lambda: unique_partition(4, batches),
        "unique_partition_8": lambda: unique_partition(8, batches),
        "unique_partition_stitch_4": lambda: unique_partition_stitch(4, batches),
        "unique_partition_stitch_8": lambda: unique_partition_stitch(8, batches),
        "lookup_mutable": lambda: lookup(tables.mutable, batches.unique_ids),
        "lookup_dense_hash": lambda: lookup(tables.dense_hash, batches.unique_ids),
        "lookup_dense_hash_raw": lambda: lookup(tables.dense_hash, batches.ids),
        "lookup_gather": lambda: lookup_gather(tables, batches.unique_rows),
        "lookup_gather_raw": lambda: lookup_gather(tables, batches.rows),
        "apply_adagrad": lambda: apply_adagrad(tables, batches),
        "step_adagrad": lambda: step_adagrad(tables, batches),
        "step_mutable_sgd": lambda: step_sgd(tables.mutable, batches),
        "step_dense_hash_sgd": lambda: step_sgd(tables.dense_hash, batches),
        "insert_mutable": insert_mutable,
        "touch_memory": lambda: touch_memory,
    }


def units(case: str, unique: float) -> float:
    """Ids that one call of a case is about: keys put in, different ids, or all ids of a batch."""
    if case in ("insert_mutable", "touch_memory"):
        return load.FRESH
    whole = case.startswith(("unique_partition", "step")) or case.endswith("raw")
    return load.IDS if whole else unique


def main() -> None:
    """Load what the asked cases need and serve them."""
    given = arguments(list(makers(Tables(0), None)), load.KEYS)  # type: ignore[arg-type]
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
        "units": {name: units(name, batches.unique) for name in cases},
    }
    serve(cases, about)


if __name__ == "__main__":
    main()

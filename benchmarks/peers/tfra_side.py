"""TensorFlow Recommenders Addons as a side of the benchmark of embedding tables.

Its table is `dynamic_embedding.Variable` over libcuckoo. A step takes the form that was fastest of those tried: the
different ids once, and gradients summed before the optimizer, which then updates a dense piece. With a tape over its
own `embedding_lookup_unique`, whose gradients are of repeated ids, the optimizer finds the different ones a second
time: 1.2 times as long, by the fastest of 15 calls with 1 M keys; `bp_v2` took 1.15 times as long. Keras' old and new
Adam and TensorFlow 1's took the same.

Every key is put into the tables of weights, m and v directly, by `upsert`, after a first step has made the latter two.
"""

import itertools
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import sparse_load as load
import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de
import tf_keras
from sides import arguments, resident, serve, timed

BATCHES, WARM = 16, 3
CASES = ("lookup", "lookup_raw", "lookup_unique", "step_adam")
SLOTS = ("m", "v")

Case = Callable[[int], list[float]]
IDS = tf.TensorSpec([None], tf.int64)
ROWS = tf.TensorSpec([None, load.DIM], tf.float32)


def table_of(keys: int) -> Any:
    """A table of rows on the CPU, with room for all keys, loaded with them."""
    table = de.get_variable("rows", tf.int64, tf.float32, dim=load.DIM, devices=["/CPU:0"], init_size=keys)
    fill(table, keys)
    return table


def fill(table: Any, keys: int, zero: bool = False) -> None:
    """Put every key into a table: small weights, or the zeros of a slot."""
    for piece in load.all_keys(keys):
        values = load.gradients(len(piece))
        table.upsert(tf.constant(piece), tf.constant(np.zeros_like(values) if zero else values))


class Feed:
    """The batches as tensors, the next at each call."""

    def __init__(self, keys: int) -> None:
        drawn = load.batches(BATCHES, seed=11, keys=keys)
        self.unique = float(np.mean([len(batch.unique_rows) for batch in drawn]))
        self.ids = [tf.constant(batch.ids) for batch in drawn]
        self.unique_ids = [tf.constant(batch.unique_ids) for batch in drawn]
        self.gradients = tf.constant(load.gradients(load.IDS))

    def case(self, call: Callable[..., object], ids: list[tf.Tensor], *more: tf.Tensor) -> Case:
        """A case that calls with the next ids each time, warm before it is timed."""
        numbers = itertools.count()

        def once(_: int) -> None:
            call(ids[next(numbers) % BATCHES], *more)

        def case(calls: int) -> list[float]:
            timed(WARM, once)
            return timed(calls, once)

        return case


def lookup(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Rows of keys."""
    return table.lookup(ids)


def lookup_unique(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a batch by its different ids."""
    unique, inverse = tf.unique(ids)
    return tf.gather(table.lookup(unique), inverse)


def step_adam(table: Any, keys: int, feed: Feed) -> Case:
    """A training step, with slots for every key."""
    shadow = de.shadow_ops.ShadowVariable(table, name="shadow")
    optimizer = de.DynamicEmbeddingOptimizer(tf_keras.optimizers.legacy.Adam(1e-3))

    @tf.function(input_signature=[IDS, ROWS])
    def step(ids: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        unique, inverse = tf.unique(ids)
        batch = tf.gather(de.shadow_ops.embedding_lookup(shadow, unique), inverse)
        with tf.control_dependencies([batch]):
            summed = tf.math.unsorted_segment_sum(gradients, inverse, tf.size(unique))
            optimizer.apply_gradients([(summed, shadow)])
        return batch

    step(feed.ids[0], feed.gradients)
    for slot in (optimizer.get_slot(shadow, name).params for name in SLOTS):
        fill(slot, keys, zero=True)
        assert int(slot.size()) == keys
    return feed.case(step, feed.ids, feed.gradients)


def cases_of(names: list[str], keys: int, feed: Feed) -> dict[str, Case]:
    """The asked cases on one table; slots only where a case needs them."""
    table = table_of(keys)

    def graph(function: Callable[[Any, tf.Tensor], tf.Tensor]) -> Callable[..., tf.Tensor]:
        return tf.function(lambda ids: function(table, ids), input_signature=[IDS])

    makers = {
        "lookup": lambda: feed.case(graph(lookup), feed.unique_ids),
        "lookup_raw": lambda: feed.case(graph(lookup), feed.ids),
        "lookup_unique": lambda: feed.case(graph(lookup_unique), feed.ids),
        "step_adam": lambda: step_adam(table, keys, feed),
    }
    return {name: makers[name]() for name in names}


def main() -> None:
    """Load the tables and serve their cases."""
    given = arguments(CASES, load.KEYS)
    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    tf.config.threading.set_inter_op_parallelism_threads(given.threads)
    feed = Feed(given.keys)
    before = resident()
    cases = cases_of(given.cases, given.keys, feed)
    names = ("tensorflow", "tensorflow-recommenders-addons", "tf-keras")
    about = {
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in names}},
        "keys": given.keys,
        "threads": given.threads,
        "tables": ["w", *SLOTS] if "step_adam" in given.cases else ["w"],
        "resident_before": before,
        "resident_after": resident(),
        "units": {name: feed.unique if name == "lookup" else load.IDS for name in given.cases},
    }
    serve(cases, about)


if __name__ == "__main__":
    main()

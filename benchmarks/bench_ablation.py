"""What each remedy of the articles is worth, on TensorFlow's variables and on the engine: alone, and all together.

Input: `tf.io.parse_example` of a batch instead of a record at a time. Batched reads: one question to each server for
the different ids of all features, instead of one for the ids of each. Aggregation: servers answer with a sum for each
sample. The fourth, more arenas of malloc, is a process's own: `bench_arenas.py`.

8 features with a bag of 25 ids each by Zipf's law, width 16, mean, two layers, SGD; 2048 samples a batch, two parameter
servers and a worker. A step parses, looks up, trains and updates. All sides take turns, batch by batch.
"""

import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from report import MISSED, publish, result
from servers import servers
from size import sized

from afo.data.example import encode
from afo.embedding import EmbeddingTape, TableGroup, get_embedding_variable, group_embedding_lookup_sparse
from afo.job import Sgd
from afo.state.server_connections import connect

FEATURES, BAG, DIM, EXPONENT, RATE = 8, 25, 16, 1.05, 0.01
VALUES, SAMPLES = sized(500_000, 1000), sized(2048, 8)
SERVERS = 2
DEVICES = [f"/job:ps/replica:0/task:{number}/device:CPU:0" for number in range(SERVERS)]
ROWS = FEATURES * VALUES // SERVERS
WANTED = {f"f{number}": tf.io.FixedLenFeature([BAG], tf.int64) for number in range(FEATURES)}
SIGNATURE = [{name: tf.TensorSpec([SAMPLES, BAG], tf.int64) for name in WANTED}]


class Remedies(NamedTuple):
    """Which of them are taken."""

    input: bool = False
    batched: bool = False
    aggregated: bool = False


SETS = {
    "none": Remedies(),
    "input": Remedies(input=True),
    "batched reads": Remedies(batched=True),
    "aggregation": Remedies(aggregated=True),
    "all three": Remedies(input=True, batched=True, aggregated=True),
}


class Layers:
    """Two dense layers in the worker, and their step."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(tf.random.normal(shape, stddev=0.1)) for shape in ((FEATURES * DIM, 64), (64, 1))]

    def loss(self, pooled: Any) -> Any:
        """Of what the samples see: [samples, features * width]."""
        hidden = tf.nn.relu(pooled @ self.weights[0])
        return tf.reduce_mean(tf.square(hidden @ self.weights[1] - 1.0))

    def step(self, looked_up: Callable[[], Any], values: list[Any]) -> tuple[Any, list[Any]]:
        """The loss, after these layers' update, and its gradients with regard to `values`."""
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = self.loss(looked_up())
        *own, of_values = tape.gradient(loss, [*self.weights, values])
        for weights, gradient in zip(self.weights, own, strict=True):
            weights.assign_sub(RATE * gradient)
        return loss, of_values


class Stock:
    """Rows of all features in one variable, dealt out to the servers row by row."""

    def __init__(self, remedies: Remedies) -> None:
        self._remedies, self._layers, self._tables = remedies, Layers(), []
        for device in DEVICES:
            with tf.device(device):
                self._tables.append(tf.Variable(tf.random.normal([ROWS, DIM], stddev=0.1)))

    def step(self, features: dict[str, Any]) -> Any:
        """SGD on one batch."""
        ids = [tf.reshape(features[name], [-1]) + number * VALUES for number, name in enumerate(WANTED)]
        questions = [tf.concat(ids, axis=0)] if self._remedies.batched else ids
        asked = [self._summed(each) if self._remedies.aggregated else self._found(each) for each in questions]
        values = [part for each in asked for part in each.values]
        samples = [each.pooled for each in asked]

        def looked_up() -> Any:
            pooled = tf.concat([each() for each in samples], axis=0)
            by_feature = tf.reshape(pooled, [FEATURES, SAMPLES, DIM])
            return tf.reshape(tf.transpose(by_feature, [1, 0, 2]), [SAMPLES, FEATURES * DIM])

        loss, gradients = self._layers.step(looked_up, values)
        for each in asked:
            each.apply([gradients.pop(0) for _ in each.values])
        return loss

    def _found(self, ids: Any) -> "Answer":
        """A row for each id; for each different one with batched reads."""
        different, inverse = tf.unique(ids) if self._remedies.batched else (ids, tf.range(tf.size(ids)))
        owner = tf.cast(different % SERVERS, tf.int32)
        rows = tf.dynamic_partition(different // SERVERS, owner, SERVERS)
        places = tf.dynamic_partition(tf.range(tf.size(different)), owner, SERVERS)
        values = []
        for table, device, own in zip(self._tables, DEVICES, rows, strict=True):
            with tf.device(device):
                values.append(tf.gather(table, own))

        def pooled() -> Any:
            by_id = tf.gather(tf.dynamic_stitch(places, values), inverse)
            return tf.reduce_mean(tf.reshape(by_id, [-1, BAG, DIM]), axis=1)

        return Answer(values, pooled, lambda gradients: self._scatter(rows, gradients))

    def _summed(self, ids: Any) -> "Answer":
        """A sum for each sample."""
        owner = tf.cast(ids % SERVERS, tf.int32)
        rows = tf.dynamic_partition(ids // SERVERS, owner, SERVERS)
        samples = tf.dynamic_partition(tf.range(tf.size(ids)) // BAG, owner, SERVERS)
        count, values = tf.size(ids) // BAG, []
        for table, device, own, sample in zip(self._tables, DEVICES, rows, samples, strict=True):
            with tf.device(device):
                values.append(tf.math.unsorted_segment_sum(tf.gather(table, own), sample, count))

        def apply(gradients: list[Any]) -> None:
            spread = []
            for device, gradient, sample in zip(DEVICES, gradients, samples, strict=True):
                with tf.device(device):
                    spread.append(tf.gather(gradient, sample))
            self._scatter(rows, spread)

        return Answer(values, lambda: tf.add_n(values) / BAG, apply)

    def _scatter(self, rows: list[Any], gradients: list[Any]) -> None:
        for table, device, own, gradient in zip(self._tables, DEVICES, rows, gradients, strict=True):
            with tf.device(device):
                change = RATE * tf.convert_to_tensor(gradient)
                tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=own, updates=change)


class Answer(NamedTuple):
    """What the servers answered to one question, what samples see of it, and how gradients are applied."""

    values: list[Any]
    pooled: Callable[[], Any]
    apply: Callable[[list[Any]], None]


class Engine:
    """A hash table for each feature."""

    def __init__(self, remedies: Remedies) -> None:
        self._remedies, self._layers = remedies, Layers()
        group = TableGroup(DEVICES, name=f"ablation {remedies}")
        rule = Sgd(learning_rate=RATE)
        self._tables = [get_embedding_variable(name, DIM, optimizer=rule, group=group) for name in WANTED]

    def step(self, features: dict[str, Any]) -> Any:
        """SGD on one batch."""
        ids = [features[name] for name in WANTED]
        each = [([table], [own]) for table, own in zip(self._tables, ids, strict=True)]
        questions = [(self._tables, ids)] if self._remedies.batched else each
        with EmbeddingTape() as tape:
            parts = [
                group_embedding_lookup_sparse(
                    tables, own, ["mean"] * len(own), concat=True, distributed_aggregation=self._remedies.aggregated
                )
                for tables, own in questions
            ]
            loss = self._layers.loss(tf.concat(parts, axis=1))
        weights = self._layers.weights
        for variable, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            variable.assign_sub(RATE * gradient)
        with tf.control_dependencies(tape.apply()):
            return tf.identity(loss)


def samples(batches: int) -> list[bytes]:
    """Serialized, by Zipf's law."""
    generator = np.random.default_rng(1)
    ends = np.cumsum(np.arange(1, VALUES + 1, dtype=np.float64) ** -EXPONENT)
    drawn = np.searchsorted(ends, generator.random((batches * SAMPLES, FEATURES, BAG)) * ends[-1])
    return [encode({name: ids.tolist() for name, ids in zip(WANTED, each, strict=True)}) for each in drawn]


def batches_of(records: list[bytes], remedies: Remedies) -> Iterator[Any]:
    """Parsed batches without end, each when it is asked for."""
    data = tf.data.Dataset.from_tensor_slices(records).repeat()
    if remedies.input:
        parsed = data.batch(SAMPLES).map(lambda batch: tf.io.parse_example(batch, WANTED))
    else:
        parsed = data.map(lambda record: tf.io.parse_single_example(record, WANTED)).batch(SAMPLES)
    options = tf.data.Options()
    # Nothing is read ahead while another side has its turn.
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return iter(parsed.with_options(options))


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(12, 2))
    options.add_argument("--batches", type=int, default=sized(4, 1))
    given = options.parse_args()
    records = samples(given.batches)
    with servers(SERVERS) as (addresses, _), connect(tuple(addresses)):
        sides = {
            (name, kind): (tf.function(kind(remedies).step, SIGNATURE, autograph=False), batches_of(records, remedies))
            for name, remedies in SETS.items()
            for kind in (Engine, Stock)
        }
        seconds: dict[tuple[str, Any], list[float]] = {side: [] for side in sides}
        for turn in range(given.rounds * given.batches):
            for side, (step, parsed) in sides.items():
                began = time.perf_counter()
                float(step(next(parsed)))
                if turn >= given.batches:  # the first time brings the rows
                    seconds[side].append(time.perf_counter() - began)
    median = {side: statistics.median(times) * 1e3 for side, times in seconds.items()}
    results = [
        result(f"remedies: {name}", median[name, Engine], median[name, Stock], "ms", 1.0, lower_is_better=True)
        for name in SETS
    ]
    return 0 if publish("ablation", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

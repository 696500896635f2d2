"""A step over many features and tables: 2,000 sparse features in 300 tables of mixed widths, against 26 in 26.

The same number of ids a step and about as many floats on both sides, AdaGrad everywhere, tables in this process:
finding the different ids, lookup, rows back to the samples, gradients, update. Ours against our own step with 26
features, and against TensorFlow's variables (`tf.unique`, gather, its sparse AdaGrad) for the same 2,000 features; the
ids of a table are joined first. Sides take turns.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from report import MISSED, publish, result
from size import sized

from afo.embedding import EmbeddingTape, TableGroup, get_embedding_variable, group_embedding_lookup_sparse
from afo.job import Adagrad

IDS, VALUES, EXPONENT = sized(4096, 40) * 26, sized(100_000, 100), 1.05
WIDTHS = (4, 8, 16, 32)


class Load(NamedTuple):
    """`features` ask `tables`; feature f asks table f modulo their number."""

    features: int
    widths: tuple[int, ...]

    @property
    def samples(self) -> int:
        """So many that the ids of a step are about as many in each load."""
        return IDS // self.features


FEW = Load(26, (16,) * 26)
#: The mean width is 15.
MANY = Load(sized(2000, 40), tuple(WIDTHS[number % len(WIDTHS)] for number in range(sized(300, 6))))


def ids_of(load: Load, seed: int) -> Any:
    """int64 [features, samples], by Zipf's law."""
    generator = np.random.default_rng(seed)
    ranks = np.arange(1, VALUES + 1, dtype=np.float64) ** -EXPONENT
    ends = np.cumsum(ranks / ranks.sum())
    return tf.constant(np.searchsorted(ends, generator.random((load.features, load.samples))), tf.int64)


def ours(load: Load, group: TableGroup) -> Callable[[Any], Any]:
    """A step on the engine, with tables of their own in `group`."""
    tables = [
        get_embedding_variable(f"t{number}", width, optimizer=Adagrad(), group=group)
        for number, width in enumerate(load.widths)
    ]
    asked = [tables[feature % len(tables)] for feature in range(load.features)]

    @tf.function(input_signature=[tf.TensorSpec([load.features, load.samples], tf.int64)], autograph=False)
    def step(ids: Any) -> Any:
        with EmbeddingTape() as tape:
            rows = group_embedding_lookup_sparse(asked, tf.unstack(ids), [None] * load.features, concat=True)
            loss = tf.reduce_sum(tf.square(rows))
        tape.gradient(loss)
        with tf.control_dependencies(tape.apply()):
            return tf.identity(loss)

    return step


def stock(load: Load) -> Callable[[Any], Any]:
    """The same on dense variables: a gather and an update for each table."""
    tables = [tf.Variable(tf.random.normal([VALUES, width], stddev=0.1)) for width in load.widths]
    sums = [tf.Variable(tf.fill([VALUES, width], 0.1)) for width in load.widths]
    of_table = [list(range(number, load.features, len(tables))) for number in range(len(tables))]

    @tf.function(input_signature=[tf.TensorSpec([load.features, load.samples], tf.int64)], autograph=False)
    def step(ids: Any) -> Any:
        found = []
        for table, features in zip(tables, of_table, strict=True):
            unique, places = tf.unique(tf.reshape(tf.gather(ids, features), [-1]))
            found.append((unique, places, tf.gather(table, unique)))
        with tf.GradientTape() as tape:
            tape.watch([values for _, _, values in found])
            by_table = [
                tf.reshape(tf.gather(values, places), [len(features), load.samples, -1])
                for (_, places, values), features in zip(found, of_table, strict=True)
            ]
            rows = [part for joined in by_table for part in tf.unstack(joined)]
            loss = tf.reduce_sum(tf.square(tf.concat(rows, axis=1)))
        gradients = tape.gradient(loss, [values for _, _, values in found])
        applied = [
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=table.handle, accum=total.handle, lr=0.05, epsilon=0.0, indices=unique,
                grad=tf.convert_to_tensor(gradient),
            )
            for table, total, (unique, _, _), gradient in zip(tables, sums, found, gradients, strict=True)
        ]  # fmt: skip
        with tf.control_dependencies(applied):
            return tf.identity(loss)

    return step


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(25, 1))
    given = options.parse_args()
    sides = {
        "few": (ours(FEW, TableGroup(name="few")), [ids_of(FEW, seed) for seed in range(8)]),
        "many": (ours(MANY, TableGroup(name="many")), [ids_of(MANY, seed) for seed in range(8)]),
        "stock": (stock(MANY), [ids_of(MANY, seed) for seed in range(8)]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(given.rounds + 8):
        for name, (step, batches) in sides.items():
            began = time.perf_counter()
            float(step(batches[number % 8]))
            if number >= 8:  # after each batch's first time, when its rows come
                seconds[name].append(time.perf_counter() - began)
    few, many, theirs = (statistics.median(seconds[name]) * 1e3 for name in ("few", "many", "stock"))
    good = publish(
        "many_tables",
        [
            result("2,000 features in 300 tables against 26", many, few, "ms", 0.75, lower_is_better=True),
            result("2,000 features in 300 tables against stock", many, theirs, "ms", 5.0, lower_is_better=True),
        ],
    )
    return 0 if good else MISSED


if __name__ == "__main__":
    sys.exit(main())

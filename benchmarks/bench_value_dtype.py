"""What tables in bfloat16 (`model.embedding.value_dtype`) save, and cost: memory, processor time, and quality.

Memory: bytes a row of tables that hold the same keys, index included, counted and not timed. Processor time: lookup and
update of batches of keys at random, in turns on a table of each kind. Quality: pairs of jobs as in `bench_quality`, one
seed each, that differ in `value_dtype` alone; with one worker, or the order of updates would differ by more.

The claims: a row takes less by what two bytes a weight are, a lookup and an update together take at most a third
longer, and the 95 % interval of the mean difference in AUC is inside of 0.0005.
"""

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
from bench_quality import Compared, interval, pairs
from report import MISSED, publish, result
from size import sized
from sparse_load import keys_of

from afo.embedding import TableGroup, get_embedding_variable
from afo.job import Adagrad, Adam
from afo.ops.library import load

KINDS = ("bfloat16", "float32")
DIMS = (8, 16, 64)
RULES = {"AdaGrad": Adagrad(), "Adam": Adam()}
MARGIN = 0.0005
#: What a table has beside its weights and slots; and how far the memory of one of the two may run ahead of its rows
#: (`kMostAhead` of afo/core/row_store.cc).
HEADER, INDEX, AHEAD = 16, 24, 1 / 16
METRICS = ("auc", "log_loss", "calibration")


class Filled:
    """A table of one kind on one server, with so many keys."""

    def __init__(self, name: str, dim: int, kind: str, keys: int) -> None:
        self._ops, self._group = load(), TableGroup(name=f"bench/{name}/{dim}/{kind}")
        self._dim = dim
        self.variable = get_embedding_variable("v", dim, optimizer=RULES[name], group=self._group, value_dtype=kind)
        for first in range(0, keys, 100_000):
            self._look_up(tf.constant(keys_of(np.arange(first, min(first + 100_000, keys)))))

    def bytes_per_row(self) -> float:
        """Of all that the table takes."""
        return self.variable.memory_bytes() / self.variable.total_count()

    def step(self, keys: Any, gradients: Any) -> float:
        """Looks up and updates; seconds of this process's processors."""
        before = time.process_time()
        rows = self._look_up(keys)
        splits, counts = [0, len(keys)], tf.ones([len(keys)], tf.int32)
        handle, step = self._group.link(0).handle(), tf.constant(1, tf.int64)
        self._ops.afo_apply_rows(handle, keys, splits, rows, counts, gradients, 1.0, step, numbers=[0])
        return time.process_time() - before

    def clear(self) -> None:
        """Gives the memory back."""
        self._group.server(0).clear()

    def _look_up(self, keys: Any) -> Any:
        return self._ops.afo_lookup_rows(
            self._group.link(0).handle(), keys, [0, len(keys)], numbers=[0], insert=True
        ).rows  # fmt: skip


def least_saved(dim: int, slots: int) -> float:
    """The bar of memory: what the layout saves."""
    floats = HEADER + INDEX + 4 * dim * (1 + slots)
    return round(floats / (floats - 2 * dim) / (1 + AHEAD), 2)


def on_tables(given: argparse.Namespace) -> list[dict[str, object]]:
    """Memory and processor time of each rule and width."""
    found, generator = [], np.random.default_rng(1)
    for name, rule in RULES.items():
        for dim in DIMS:
            tables = {kind: Filled(name, dim, kind, given.keys) for kind in KINDS}
            size = [tables[kind].bytes_per_row() for kind in KINDS]
            least = least_saved(dim, rule.slots)
            found.append(result(f"bytes a row, {name}, width {dim}", *size, "B", least, lower_is_better=True))
            times: dict[str, list[float]] = {kind: [] for kind in KINDS}
            gradients = tf.constant(generator.normal(size=given.batch * dim), tf.float32)
            for number in range(given.rounds):
                ranks = generator.choice(given.keys, given.batch, replace=False)
                keys = tf.constant(keys_of(ranks))
                for kind in KINDS if number % 2 else KINDS[::-1]:
                    times[kind].append(tables[kind].step(keys, gradients) / given.batch * 1e9)
            spent = [statistics.median(times[kind][2:] or times[kind]) for kind in KINDS]
            words = f"processor time of lookup and update, {name}, width {dim}"
            found.append(result(words, *spent, "ns a key", 0.75, lower_is_better=True))
            for each in tables.values():
                each.clear()
    return found


def in_jobs(given: argparse.Namespace) -> dict[str, object]:
    """Quality of paired jobs."""
    what = Compared("model.embedding.value_dtype", *KINDS, ("roles.worker.instances=1",))
    found, _ = pairs(given.pairs, given.train, given.buckets, what)
    worst: dict[str, float] = {}
    for name in METRICS:
        ours, theirs = ([pair[kind][name] for pair in found] for kind in KINDS)
        mean, low, high = interval([our - their for our, their in zip(ours, theirs, strict=True)])
        print(f"{name}: bfloat16 {statistics.mean(ours):.5f}, float32 {statistics.mean(theirs):.5f}")
        print(f"{name}, bfloat16 less float32: {mean:+.5f}, 95 % interval {low:+.5f} to {high:+.5f}")
        worst[name] = max(abs(low), abs(high))
    name = "AUC with tables in bfloat16 as in float32"
    return result(name, max(worst["auc"], 1e-9), MARGIN, "AUC", 1.0, lower_is_better=True)


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", type=int, default=sized(400_000, 1000))
    options.add_argument("--batch", type=int, default=sized(50_000, 100), help="different keys of a lookup and update")
    options.add_argument("--rounds", type=int, default=sized(21, 2))
    options.add_argument("--pairs", type=int, default=sized(10, 2), help="of jobs; 0: none")
    options.add_argument("--train", type=int, default=sized(500_000, 2000), help="training records of a job")
    options.add_argument("--buckets", type=int, default=100_000, help="of each feature and cross")
    given = options.parse_args()
    holds = publish("value_dtype_tables", on_tables(given))
    if given.pairs:
        holds = publish("value_dtype_jobs", [in_jobs(given)]) and holds
    return 0 if holds else MISSED


if __name__ == "__main__":
    sys.exit(main())

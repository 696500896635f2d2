"""Looking keys up in a served model: native tables against frozen ones, and rows of fewer bytes.

One table of 2 M random keys, dim 16; batches of 8,192 keys of which nine of ten are there, by a function that
TensorFlow traced, as a SavedModel has it. Sides take turns, batch by batch. Beside it the bytes of keys and rows of
each side, and the seconds that it took to make.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from report import MISSED, publish, result
from size import sized

from afo.job import ROW_TYPES
from afo.tables.saved_tables import Rows
from afo.trainable.served.table_form import TableForm

BATCH, BATCHES, DIM = 8192, 16, 16


class Side(NamedTuple):
    """A table as a model serves it."""

    lookup: Any
    #: Of keys and rows, without the index.
    bytes: int
    #: Seconds that it took to make.
    ready: float
    #: What keeps the table.
    table: Any


def side(rows: Rows, form: TableForm) -> Side:
    """A table, and what it takes."""
    began = time.perf_counter()
    table = form.make_hash_table(rows)
    ready = time.perf_counter() - began
    if form.native_in is None:
        size = sum(variable.value().numpy().nbytes for variable in table.variables)  # type: ignore[attr-defined]
    else:
        size = sum(file.stat().st_size for file in form.native_in.iterdir())
    lookup = tf.function(table.lookup, input_signature=[tf.TensorSpec([None], tf.int64)])
    return Side(lookup, size, ready, table)


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", type=int, default=sized(2_000_000, 20_000))
    options.add_argument("--rounds", type=int, default=sized(10, 1))
    given = options.parse_args()
    random = np.random.default_rng(1)
    keys = np.unique(random.integers(-(2**63), 2**63 - 1, given.keys))
    rows = Rows(keys, random.normal(size=(len(keys), DIM)).astype(np.float32))
    batches = [tf.constant(asked(random, keys)) for _ in range(BATCHES)]
    with tempfile.TemporaryDirectory(prefix="afo-export-") as scratch:
        sides = {("frozen", kept): side(rows, TableForm(kept)) for kept in ROW_TYPES}
        sides |= {("native", kept): side(rows, TableForm(kept, Path(scratch, kept))) for kept in ROW_TYPES}
    million = measured(sides, batches, given.rounds)
    for (tables, kept), each in sides.items():
        speed, size = million[tables, kept], each.bytes / len(keys)
        print(f"{tables}, {kept}: {speed:.1f} M keys/s, {size:.1f} bytes a key, {each.ready:.1f} s")
    results = [
        result(f"native against frozen, {kept}", million["native", kept], million["frozen", kept], "M keys/s", 2.0,
               lower_is_better=False)
        for kept in ROW_TYPES
    ]  # fmt: skip
    results += [
        result(f"bytes of {kept} against float32, native", sides["native", kept].bytes / len(keys),
               sides["native", "float32"].bytes / len(keys), "bytes a key", least, lower_is_better=True)
        for kept, least in (("bfloat16", 1.75), ("int8", 2.5))
    ]  # fmt: skip
    return 0 if publish("export", results) else MISSED


def asked(random: Any, keys: Any) -> Any:
    """A batch of keys."""
    there = random.choice(keys, BATCH - BATCH // 10)
    return random.permutation(np.concatenate([there, random.integers(-(2**63), 2**63 - 1, BATCH // 10)]))


def measured(sides: dict[tuple[str, Any], Side], batches: list[Any], rounds: int) -> dict[tuple[str, Any], float]:
    """Million keys a second of each side, by the median."""
    seconds: dict[tuple[str, Any], list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for batch in batches:
            for name, each in sides.items():
                began = time.perf_counter()
                each.lookup(batch).numpy()
                if turn:  # the first is traced
                    seconds[name].append(time.perf_counter() - began)
    return {name: BATCH / statistics.median(taken) / 1e6 for name, taken in seconds.items()}


if __name__ == "__main__":
    sys.exit(main())

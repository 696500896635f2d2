"""From TFRecord files to batches: reading and parsing in C++ against `tf.data`.

500,000 records of 26 ids and 13 real numbers, in batches of 4096, no shuffling; the file is in the page cache. Against
`TFRecordDataset`, batched and parsed by `tf.io.parse_example` as a whole with everything left to autotuning, and
against the same parsed a record at a time (of 50,000 records). Parsing alone: of those records, and of records of 2,000
features of which 300 are read. Sides take turns; `--threads` of an operation, 1 and 2 unless given.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from report import MISSED, each_alone, publish, result
from size import sized

from afo.data.io.example_batch import encode_columns
from afo.data.io.record_blocks import Order, RecordSource, record_blocks
from afo.data.io.tfrecord import RecordWriter
from afo.job import Data
from afo.models.example_parsing import Reading, parse, parse_by_tensorflow

BATCH, VALUES = sized(4096, 64), 385_000
ENTERED = {f"c{n}": Reading(tf.int64, (0,)) for n in range(26)} | {
    f"d{n}": Reading(tf.float32, (0,)) for n in range(13)
}
#: Every seventh or so of 2,000 features.
MANY = {f"feature_{n}": Reading(tf.int64, (0,)) for n in range(0, 2000, 20)} | {
    f"feature_{n}": Reading(tf.float32, (0,)) for n in range(2000) if n % 20 in (7, 13)
}
Readings = dict[str, Reading]


def records(count: int, names: list[str], seed: int) -> list[bytes]:
    """Samples whose features are ids where `names` begin with c or end on an even digit, real numbers elsewhere."""
    generator = np.random.default_rng(seed)
    columns = {
        name: generator.zipf(1.3, count) % VALUES if is_id(name) else generator.normal(size=count).astype(np.float32)
        for name in names
    }
    return encode_columns(columns)


def is_id(name: str) -> bool:
    """Whether a feature holds an id."""
    return name.startswith("c") or (name.startswith("feature_") and int(name[8:]) % 2 == 0)


def per_second(count: int, run: Callable[[], Any]) -> float:
    """Records a second."""
    began = time.perf_counter()
    run()
    return count / (time.perf_counter() - began)


def compared(rounds: int, sides: list[tuple[int, Callable[[], Any]]]) -> list[float]:
    """Median records a second of each of the sides (records, run), which take turns after a first one each."""
    for _, run in sides:
        run()
    rates: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for rate, (count, run) in zip(rates, sides, strict=True):
            rate.append(per_second(count, run))
    return [statistics.median(rate) for rate in rates]


def traced(parser: Any, readings: Readings) -> Any:
    """The parser as a function of its own, as a job has it."""
    return tf.function(lambda block: parser(block, readings), [tf.TensorSpec([None], tf.string)], autograph=False)


def drained(batches: Any) -> None:
    """Take all of them."""
    for batch in batches:
        assert len(batch) == len(ENTERED)


def ours(path: str) -> Iterator[Any]:
    """Batches as a worker reads them."""
    parser = traced(parse, ENTERED)
    return (
        parser(block) for block in record_blocks(RecordSource(path, Data(train=("x",)), None), Order(1, 1, 0, BATCH))
    )


def vectorised(path: str) -> Any:
    """As TensorFlow's guide advises: batch, then parse."""
    files = tf.data.TFRecordDataset(path).batch(BATCH)
    return files.map(lambda block: parse_by_tensorflow(block, ENTERED), tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def one_by_one(path: str, count: int) -> Any:
    """Parse, then batch."""
    features = {name: tf.io.FixedLenFeature([], each.dtype) for name, each in ENTERED.items()}
    files = tf.data.TFRecordDataset(path).take(count)
    parsed = files.map(lambda record: tf.io.parse_single_example(record, features), tf.data.AUTOTUNE)
    return parsed.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def unpacked(path: str) -> None:
    """A gzip file, of which nothing is read."""
    engine = zlib.decompressobj(16 + zlib.MAX_WBITS)
    with open(path, "rb") as file:
        while block := file.read(1 << 16):
            engine.decompress(block)


def written(folder: str, count: int) -> tuple[str, str]:
    """The same records in a plain file and in a gzip file."""
    paths = str(Path(folder) / "records"), str(Path(folder) / "records.gz")
    with RecordWriter(paths[0]) as plain, RecordWriter(paths[1], "gzip") as packed:
        for seed in range(-(-count // BATCH)):
            block = records(min(BATCH, count - seed * BATCH), list(ENTERED), seed)
            plain.write_all(block)
            packed.write_all(block)
    return paths


def measured(threads: int, count: int, rounds: int) -> list[dict[str, object]]:
    """All rows with so many threads."""
    few = max(1, count // 10)
    with tempfile.TemporaryDirectory() as folder:
        path, packed = written(folder, count)
        sides: list[tuple[int, Callable[[], Any]]] = [
            (count, lambda: drained(ours(path))),
            (count, lambda: drained(vectorised(path))),
            (few, lambda: drained(one_by_one(path, few))),
            (count, lambda: drained(ours(packed))),
            (count, lambda: unpacked(packed)),
        ]
        whole = compared(rounds, sides)
    rows = [
        (f"TFRecord to batch, vectorised parse_example, {threads} threads", whole[0], whole[1], 4.5),
        (f"TFRecord to batch, a record at a time, {threads} threads", whole[0], whole[2], 55.0),
        (f"gzip file to batch, zlib alone, {threads} threads", whole[3], whole[4], 0.8),
    ]
    many = [f"feature_{n}" for n in range(2000)]
    for what, names, readings, at_least in (
        ("39 features", list(ENTERED), ENTERED, 4.5),
        ("300 of 2,000", many, MANY, 5.0),
    ):
        block = tf.constant(records(BATCH, names, 0))
        parsers = [traced(each, readings) for each in (parse, parse_by_tensorflow)]
        mine, theirs = compared(5 * rounds, [(BATCH, partial(each, block)) for each in parsers])
        rows.append((f"parsing alone, {what}, {threads} threads", mine, theirs, at_least))
    return [result(name, mine, theirs, "records/s", bar, lower_is_better=False) for name, mine, theirs, bar in rows]


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int)
    options.add_argument("--records", type=int, default=sized(500_000, 1000))
    options.add_argument("--rounds", type=int, default=sized(5, 1))
    given = options.parse_args()
    if given.threads is None:  # a process has one number of threads
        return each_alone([("--threads", str(number)) for number in sized((1, 2), (1,))])
    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    tf.config.threading.set_inter_op_parallelism_threads(given.threads)
    return 0 if publish(f"input_{given.threads}", measured(given.threads, given.records, given.rounds)) else MISSED


if __name__ == "__main__":
    sys.exit(main())

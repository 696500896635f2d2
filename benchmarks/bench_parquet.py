"""From a Parquet file to batches of tensors, against pyarrow alone to numpy arrays.

500,000 rows of 26 ids and 13 real numbers, a label and a sample id, zstd, in batches of 4096, no shuffling; the file is
in the page cache, and pyarrow decodes with as many threads on both sides, 1 and 2 unless `--threads` says. pyarrow
reads the whole table, or a group of rows at once, and turns each column into one array, or goes batch by batch of one
of two sizes; the quickest of them counts. Ours checks that each row fits the schema, too. Besides the wall clock the
processor's time is compared: ours has a thread more, which decodes ahead.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import MISSED, each_alone, publish, result
from size import sized

from afo.data.feature import Feature
from afo.data.io.columns import ColumnFile, column_blocks
from afo.data.pipeline.batch_fragments import as_tensors
from afo.data.schema import Schema
from afo.job import Data, Shuffle

BATCH, VALUES = 4096, 385_000
IDS, NUMBERS = [f"c{n}" for n in range(26)], [f"d{n}" for n in range(13)]
SCHEMA = Schema(
    label="label", sample_id="sample_id",
    features=(
        *(Feature(name=name, kind="categorical", hash_buckets=VALUES) for name in IDS),
        *(Feature(name=name, kind="dense") for name in NUMBERS),
    ),
)  # fmt: skip
DATA = Data(train=("x",), label="label", sample_id="sample_id", shuffle=Shuffle(buffer=1))
READ = [*IDS, *NUMBERS, "label", "sample_id"]


def written(path: Path, count: int) -> None:
    """The file."""
    generator = np.random.default_rng(0)
    columns: dict[str, Any] = {name: generator.zipf(1.3, count) % VALUES for name in IDS}
    columns |= {name: generator.normal(size=count).astype(np.float32) for name in NUMBERS}
    columns |= {"label": generator.integers(0, 2, count), "sample_id": np.arange(count)}
    pq.write_table(pa.table(columns), path, compression="zstd")


def ours(path: Path) -> None:
    """Blocks as a worker reads them."""

    def refuse(reason: str) -> None:
        raise AssertionError(reason)

    for block in column_blocks(ColumnFile(path, str(path)), SCHEMA, DATA, refuse, 1, 0, BATCH):
        assert len(as_tensors(block).features) == len(IDS) + len(NUMBERS)


def as_table(path: Path) -> None:
    """One array a column."""
    arrays_of(pq.read_table(path, columns=READ, use_threads=pa.cpu_count() > 1))


def by_groups(path: Path) -> None:
    """One array a column and group of rows."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        arrays_of(file.read_row_group(group, columns=READ, use_threads=pa.cpu_count() > 1))


def by_batches(path: Path, size: int) -> None:
    """Arrays of so many rows, one after the other."""
    for batch in pq.ParquetFile(path).iter_batches(size, columns=READ, use_threads=pa.cpu_count() > 1):
        for column in batch.columns:
            column.to_numpy(zero_copy_only=False)


def arrays_of(table: pa.Table) -> None:
    """Each column."""
    for column in table.columns:
        column.to_numpy()


SIDES: dict[str, Callable[[Path], None]] = {
    "ours": ours, "table": as_table, "groups": by_groups,
    f"batches of {BATCH}": partial(by_batches, size=BATCH), "batches of 131072": partial(by_batches, size=1 << 17),
}  # fmt: skip


def measured(path: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the wall and of the processor, of each side in turn, after a first round."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    for turn in range(rounds + 1):
        for name, run in SIDES.items():
            wall, processor = time.perf_counter(), time.process_time()
            run(path)
            if turn:
                spent[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return spent


def claims(spent: dict[str, list[tuple[float, float]]], count: int, threads: int) -> list[dict[str, object]]:
    """The medians of ours and of the quickest other side."""
    found = []
    for place, clock in enumerate(("wall", "processor")):
        rates = {name: count / statistics.median(each[place] for each in times) for name, times in spent.items()}
        print(clock, {name: f"{rate:,.0f} rows/s" for name, rate in rates.items()})
        best = max(rate for name, rate in rates.items() if name != "ours")
        name = f"Parquet to batch, pyarrow to numpy, {threads} threads, {clock}"
        found.append(result(name, rates["ours"], best, "rows/s", 0.9, lower_is_better=False))
    return found


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int)
    options.add_argument("--rows", type=int, default=sized(500_000, 5000))
    options.add_argument("--rounds", type=int, default=sized(7, 1))
    given = options.parse_args()
    if given.threads is None:  # as in the other benchmark of input
        return each_alone([("--threads", str(number)) for number in sized((1, 2), (1,))])
    pa.set_cpu_count(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        written(path, given.rows)
        found = claims(measured(path, given.rounds), given.rows, given.threads)
    return 0 if publish(f"parquet_{given.threads}", found) else MISSED


if __name__ == "__main__":
    sys.exit(main())

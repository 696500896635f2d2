"""From a Parquet file to batches of tensors, against pyarrow alone to numpy arrays.

500,000 rows of 26 ids and 13 real numbers, a label and a sample id, zstd, in batches of 4096, no shuffling; the file is
in the page cache, pyarrow decodes with one thread on both sides. pyarrow either reads the whole table and turns each
column into one array, or goes batch by batch; the quicker one counts. Ours checks that each row fits the schema, too.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import publish, result

from afo.data.columns import ColumnFile, column_blocks
from afo.data.schema import Feature, Schema
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
OUTPUTS = ["label", "sample_id"]


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
        assert len(block.features) == len(IDS) + len(NUMBERS)


def as_table(path: Path) -> None:
    """One array a column."""
    table = pq.read_table(path, columns=[*IDS, *NUMBERS, *OUTPUTS], use_threads=False)
    for name in table.column_names:
        table.column(name).to_numpy()


def by_batches(path: Path) -> None:
    """Arrays of a batch, batch by batch."""
    file = pq.ParquetFile(path)
    for batch in file.iter_batches(BATCH, columns=[*IDS, *NUMBERS, *OUTPUTS], use_threads=False):
        for column in batch.columns:
            column.to_numpy(zero_copy_only=False)


def main() -> int:
    """0 if the claim holds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=500_000)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    sides: dict[str, Callable[[Path], None]] = {"ours": ours, "table": as_table, "batches": by_batches}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        written(path, given.rows)
        for turn in range(given.rounds + 1):
            for name, run in sides.items():
                began = time.perf_counter()
                run(path)
                if turn:
                    rates[name].append(given.rows / (time.perf_counter() - began))
    found = {name: statistics.median(each) for name, each in rates.items()}
    print({name: f"{rate:,.0f} rows/s" for name, rate in found.items()})
    best = max(found["table"], found["batches"])
    claim = result("Parquet to batch, pyarrow to numpy", found["ours"], best, "rows/s", 0.9, lower_is_better=False)
    return 0 if publish("parquet", [claim]) else 1


if __name__ == "__main__":
    sys.exit(main())

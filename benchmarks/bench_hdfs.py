"""From TFRecord files in HDFS to batches, against the same files on the local disk, and against reading their bytes.

A real NameNode and DataNode on this machine, 4 files with 500,000 records of 26 ids and 13 real numbers in all. The
whole input of a worker (`afo.data.pipeline`: lease, copy, read, mix, parse) drains them from HDFS, each file copied
by one stream or by four, and from the local disk; hdfs-native alone reads all bytes and does nothing with them. Sides
take turns; the files are in the page cache. It starts and ends a Hadoop of its own (Java and Maven).
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
from typing import Any, Literal

import hdfs_native
import numpy as np
from bench_parquet import IDS, NUMBERS, SCHEMA, VALUES
from report import MISSED, publish, result
from size import sized

from afo import storage
from afo.data.io.example_batch import encode_columns
from afo.data.io.tfrecord import RecordWriter
from afo.data.pipeline.batch_fragments import Origins
from afo.data.pipeline.batcher import Batch, TrainingInput
from afo.data.pipeline.split_reader import Lease
from afo.job import Data
from afo.models.parser import parser_of
from afo.storage import streams
from afo_client.hadoop import Cluster, ClusterSpec

FILES, BATCH, PIECE = 4, 4096, 8 << 20
DATA = Data(schema="", train=("x",), label="label", sample_id="sample_id", batch_size=BATCH)


def written(path: Path, count: int, seed: int) -> None:
    """One file."""
    generator = np.random.default_rng(seed)
    columns: dict[str, Any] = {name: generator.zipf(1.3, count) % VALUES for name in IDS}
    columns |= {name: generator.normal(size=count).astype(np.float32) for name in NUMBERS}
    columns |= {"label": generator.integers(0, 2, count), "sample_id": np.arange(count)}
    with RecordWriter(str(path)) as file:
        file.write_all(encode_columns(columns))


class Leases:
    """What the Application Master would say."""

    def __init__(self, urls: list[str]) -> None:
        self._leases = [Lease(row, 0, url) for row, url in enumerate(urls)]
        self.left = len(urls)

    def next_split(self) -> Lease | Literal["wait", "end"]:
        """The next file."""
        if self._leases:
            return self._leases.pop(0)
        return "wait" if self.left else "end"


def drained(urls: list[str], scratch: Path) -> int:
    """Records in all batches."""
    leases, parser, count = Leases(urls), parser_of(SCHEMA, DATA), 0

    def prepare(records: Any, origins: Origins) -> Any:
        return parser(records), origins

    with TrainingInput(leases.next_split, SCHEMA, DATA, scratch, parser, prepare) as reading:
        while isinstance(batch := reading.get(60.0), Batch):
            count += batch.size
            leases.left -= len(batch.ended)
        assert batch == "end", batch
    return count


def by_streams(number: int, urls: list[str], scratch: Path) -> int:
    """`drained`, each file copied by so many streams."""
    streams.STREAMS = number
    return drained(urls, scratch)


def raw(address: str, paths: list[str], count: int) -> int:
    """All bytes, one file after the other."""
    client = hdfs_native.Client(address)
    for path in paths:
        reader = client.read(path)
        while reader.read(PIECE):
            pass
    return count


def compared(rounds: int, sides: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Median records a second of each, after a first turn of each."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, run in sides.items():
            began = time.perf_counter()
            count = run()
            if turn:
                rates[name].append(count / (time.perf_counter() - began))
    return {name: statistics.median(each) for name, each in rates.items()}


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=sized(500_000, 4000))
    options.add_argument("--rounds", type=int, default=sized(5, 1))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        local = [Path(folder) / f"part-{n:02}" for n in range(FILES)]
        cluster = Cluster(Path(folder) / "hadoop")
        try:
            cluster.start(ClusterSpec(nodes=1))
            os.environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
            for seed, path in enumerate(local):
                written(path, given.records // FILES, seed)
                storage.upload(str(path), f"{cluster.hdfs_uri}/data/{path.name}")
            paths = [f"/data/{path.name}" for path in local]
            urls, scratch = [f"{cluster.hdfs_uri}{path}" for path in paths], Path(folder)
            found = compared(
                given.rounds,
                {
                    "local": lambda: drained([str(path) for path in local], scratch),
                    "1 stream": lambda: by_streams(1, urls, scratch),
                    "4 streams": lambda: by_streams(4, urls, scratch),
                    "raw": lambda: raw(cluster.hdfs_uri, paths, given.records),
                },
            )
        finally:
            cluster.stop()
    claims = [
        result(f"HDFS to batch, {name}, against {other}", found[name], found[other], "records/s", bar,
               lower_is_better=False)
        for name in ("1 stream", "4 streams") for other, bar in (("local", 0.7), ("raw", 0.9))
    ]  # fmt: skip
    return 0 if publish("hdfs", claims) else MISSED


if __name__ == "__main__":
    sys.exit(main())

"""Evaluation and export of a model that is larger than the process: its memory, and its speed against all in memory.

A synthetic checkpoint of Wide & Deep's deep part: hash tables of four features, dim 16, without slots, 88 bytes a row
in its files; a whole one and a delta in which a hundredth of the rows changed and as many keys were removed. Evaluation
and both forms of export are the processes that `afo evaluate` and `afo export` start, with `--memory 2g`. Their memory
is VmHWM, the largest resident set that the kernel saw: anonymous pages and pages of mapped files, which is what YARN
counts unless it uses control groups; the kernel's cache of files that are read and written is not in it, and files lie
there as far as the machine has room. Two fifths of the asked keys are a feature's thousand most frequent, the others
are drawn alike; a twentieth has no row.

The speed is that of the whole process, at a size where memory takes all tables: the metrics are equal to the last bit.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import tensorflow as tf
from report import MISSED, publish, result
from size import SMALLEST, sized

from afo.checkpoint.manifest import Manifest, Part, checksum_of, commit
from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import Schema
from afo.formats import json_file, manifest_file
from afo.job import Data, Embedding, Job, Model, RoleSpec
from afo.protocol.offline_task import RESULT, NumberedFile, OfflineResult, OfflineTask
from afo.tables import row_block, saved_tables
from afo.tables.row_block import RowBlock
from afo.tables.saved_tables import RowsFile, SavedTable, TablesManifest
from afo.train.setup import JobParts

FEATURES, DIM, LIMIT = ("a", "b", "c", "d"), 16, 2 << 30
ROW = row_block.ROW_BYTES + 4 * DIM
#: Rows of a block, as a server writes them.
BLOCK = (4 << 20) // ROW
LOOK_S = 0.01


class Saved(NamedTuple):
    """A checkpoint, its job, and records to evaluate it on."""

    manifest: str
    job: Job
    schema: str
    records: str


class Ran(NamedTuple):
    """How a process went: seconds, and MiB of its largest resident set and of the anonymous pages in it."""

    seconds: float
    peak: float
    anonymous: float
    metrics: dict[str, float]


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gib", type=float, default=sized(8.0, 0.002), help="Size of the table files.")
    options.add_argument("--both-gib", type=float, default=sized(1.0, 0.001), help="The same, where both sides fit.")
    options.add_argument("--records", type=int, default=sized(200_000, 500))
    given = options.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="afo-large-") as scratch:
        large = saved(Path(scratch, "large"), given.gib, given.records)
        # The smallest is not too large for any limit.
        limit = 0 if SMALLEST else LIMIT
        for kind, tables in (("evaluate", "frozen"), ("export", "native"), ("export", "frozen")):
            name = kind if kind == "evaluate" else f"{kind}, {tables}"
            ran = run(large, kind, Path(scratch), limit, tables)
            print(f"{name}, {given.gib:g} GiB: {ran.seconds:.1f} s, peak {ran.peak:.0f} MiB, of them anonymous"
                  f" {ran.anonymous:.0f}", flush=True)  # fmt: skip
            results.append(result(f"peak of {name}", ran.peak, LIMIT / 2**20, "MiB", 1.0, lower_is_better=True))
        shutil.rmtree(Path(scratch, "large"))
        both = saved(Path(scratch, "both"), given.both_gib, given.records)
        for kind in ("evaluate", "export"):
            sides = [run(both, kind, Path(scratch), limit) for limit in (0, None)]
            assert sides[0].metrics == sides[1].metrics, "scores differ"
            for name, ran in zip(("files", "memory"), sides, strict=True):
                print(
                    f"{kind} by {name}, {given.both_gib:g} GiB: {ran.seconds:.1f} s, peak {ran.peak:.0f} MiB",
                    flush=True,
                )
            files, memory = (ran.seconds for ran in sides)
            results.append(result(f"{kind} by files against memory", files, memory, "s", 0.7, lower_is_better=True))
    return 0 if publish("large_model", results) else MISSED


def saved(directory: Path, gib: float, records: int) -> Saved:
    """A checkpoint whose rows have the keys of ids from 0 on."""
    directory.mkdir()
    schema = directory / "schema.yaml"
    schema.write_text(
        Schema(label="label", features=tuple(Feature(name=name, kind="categorical") for name in FEATURES)).to_yaml()
    )
    job = Job(
        name="large", roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=("x",)),
        model=Model(parts="deep", hidden_units=(16,), embedding=Embedding(dim=DIM, storage="hash_table")),
    )  # fmt: skip
    parts = JobParts(job, str(schema))
    rows = int(gib * 2**30 / ROW / len(FEATURES))
    folder = directory / "checkpoints" / "g000001-x"
    random = np.random.default_rng(1)
    weights = random.normal(scale=0.3, size=(BLOCK, DIM)).astype(np.float32)
    write_tables(folder / "whole", (block(keys, weights) for keys in keys_of(parts, rows)), None)
    changed = max(1, rows // 100)
    delta = (
        block(keys, weights[::-1], removed)
        for keys, removed in zip(keys_of(parts, changed), keys_of(parts, changed, rows - changed), strict=True)
    )
    write_tables(folder / "tables", delta, "../whole/tables.json")
    manifest = Manifest(
        version=3, generation=1, step=7, final=True, directory=folder.name, rows={}, tables="tables/tables.json",
        parts=tuple(dense_parts(folder, parts, random)),
    )  # fmt: skip
    url, _ = commit(str(folder.parent), manifest)
    write_records(directory / "eval.tfrecord", rows, records, random)
    size = sum(path.stat().st_size for path in folder.rglob("*.afo"))
    print(f"{4 * rows:,} rows, {size / 2**30:.2f} GiB of table files", flush=True)
    return Saved(url, job, str(schema), str(directory / "eval.tfrecord"))


def keys_of(parts: JobParts, rows: int, first: int = 0) -> Iterator[tuple[int, Any]]:
    """Number of the table and keys of so many ids from `first` on, a block at a time."""
    for begin in range(first, first + rows, BLOCK):
        ids = tf.range(begin, min(begin + BLOCK, first + rows), dtype=tf.int64)[:, tf.newaxis]
        found = parts.model._encoder.keys(dict.fromkeys(FEATURES, ids)).keys  # type: ignore[attr-defined]
        for number, keys in enumerate(found):
            yield number, keys.numpy().ravel()


def block(
    numbered: tuple[int, Any], weights: Any, removed: tuple[int, Any] = (0, np.empty(0, np.int64))
) -> tuple[int, RowBlock]:
    """Rows of these keys."""
    number, keys = numbered
    nothing = np.zeros(len(keys), np.uint32)
    return number, RowBlock(removed[1], keys, nothing, nothing, weights[: len(keys)])


def write_tables(directory: Path, blocks: Iterator[tuple[int, RowBlock]], base: str | None) -> None:
    """A checkpoint of tables in one file."""
    directory.mkdir(parents=True)
    checksum, size, name = google_crc32c.Checksum(), 0, "rows-0000-0.afo"
    with (directory / name).open("wb") as file:
        for number, each in blocks:
            block = row_block.encode(each)
            record = row_block.head_of(number, block) + block
            file.write(record)
            checksum.update(record)
            size += len(record)
    manifest = TablesManifest(
        version=saved_tables.FORMAT_VERSION, servers=1, base=base,
        tables=tuple(SavedTable(f"deep/{name}", DIM, "Sgd", 0) for name in FEATURES),
        files=(RowsFile(name, 0, size, int.from_bytes(checksum.digest())),),
    )  # fmt: skip
    (directory / saved_tables.MANIFEST).write_bytes(manifest_file.encode(manifest))


def dense_parts(folder: Path, parts: JobParts, random: Any) -> Iterator[Part]:
    """The files of what is no table."""
    parameters = parts.model.parameters(1, 1)
    values = {"dense": random.normal(scale=0.3, size=parameters.dense.rows).astype(np.float32)}
    values |= {each.tensor: np.zeros(each.shape, each.dtype) for each in parameters.state}
    for name, value in values.items():
        path = folder / f"{name}.npy"
        np.save(path, value)
        yield Part(name, path.name, 0, 1, path.stat().st_size, checksum_of(path))


def write_records(path: Path, rows: int, records: int, random: Any) -> None:
    """Records of ids of which a twentieth has no row."""
    ids = random.integers(0, int(rows * 1.05) + 1, (records, len(FEATURES)))
    frequent = random.random(ids.shape) < 0.4
    ids[frequent] %= 1000
    labels = random.integers(0, 2, records)
    with RecordWriter(str(path)) as writer:
        for of_record, label in zip(ids.tolist(), labels.tolist(), strict=True):
            features = {name: [value] for name, value in zip(FEATURES, of_record, strict=True)}
            writer.write(encode({**features, "label": [label]}))


def run(model: Saved, kind: Any, scratch: Path, memory: int | None, tables: Any = "frozen") -> Ran:
    """The process that a command would start."""
    with tempfile.TemporaryDirectory(dir=scratch) as work_dir:
        task = OfflineTask(
            kind=kind, job=model.job, schema_file=model.schema, manifest=model.manifest,
            files=(NumberedFile(0, model.records),), output=str(Path(work_dir, "exported")), tables=tables,
            memory=memory, work_dir=work_dir,
        )  # fmt: skip
        file = Path(work_dir, "task.json")
        file.write_bytes(json_file.encode(task))
        began = time.perf_counter()
        command = [sys.executable, "-m", "afo.train.offline", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            peak, anonymous = watch(process)
            assert process.stderr
            said = process.stderr.read()
        seconds = time.perf_counter() - began
        if process.returncode != 0:
            raise SystemExit(said)
        done = json_file.read(str(Path(work_dir, RESULT)), OfflineResult)
        if done.error:
            raise SystemExit(str(done.error))
        return Ran(seconds, peak / 1024, anonymous / 1024, done.metrics)


def watch(process: "subprocess.Popen[str]") -> tuple[int, int]:
    """KiB of the largest resident set, by the kernel, and of anonymous pages, as often as one looks; until it ends."""
    peak = anonymous = 0
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        found = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith(("VmHWM", "RssAnon"))}
        peak, anonymous = max(peak, found.get("VmHWM:", 0)), max(anonymous, found.get("RssAnon:", 0))
        time.sleep(LOOK_S)
    return peak, anonymous


if __name__ == "__main__":
    sys.exit(main())

"""How soon a gradient answers: from its application, through checkpoint, export and server, to the first answer.

A job fills hash tables with 10 M rows, and a second one begins with its model and trains on records whose ids are
drawn from all of them, a checkpoint and a version of what changed every few seconds; about 1 % of the rows change
between two. The model server looks for versions ten times a second, and a client asks all the time: none of its
requests may fail. Once with versions in a directory of this machine, and once in a real HDFS. *Gradient to answer*:
for each moment of the training in that time, until an answer comes by a version that was trained as far; the bar is a
95th percentile of 10 s. What is printed beside it is where the time goes.

*Bytes of changes*: files of the changes of a table of 1 M rows, against the rows' own bytes; the bar is 10 % more.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_model_server import Served
from report import MISSED, publish, result
from size import sized

from afo import storage
from afo.data.feature import Feature
from afo.data.io.example_batch import encode_columns
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import Schema
from afo.events.event_log import Record, read_log
from afo.events.types import VersionExported
from afo.job.paths import JobPaths
from afo.trainable.served import export_info
from afo_client.hadoop import Cluster, ClusterSpec

FEATURES, DIM = 10, 16
#: Ids of a feature; a row each.
IDS = sized(1_000_000, 2_000)
#: Of the second job's data, which it reads again and again; of its batches, so that 1 % of the rows change.
RECORDS, BATCH = sized(400_000, 4_000), 16
EVERY_S = sized(5, 1)
VERSIONS = sized(30, 3)
#: The whole one, and what was written while the server loaded it.
FIRST = 2
#: A row's key and weights, and what the index of some 10,000 takes of it.
ROW_BYTES, INDEX_BYTES = 8 + 4 * DIM, 3.5
TABLE_ROWS = sized(1_000_000, 20_000)
BAR_S, PAUSE_S = 10.0, 0.01
_PIECE = 50_000


def main() -> int:
    """0 if the claims hold."""
    with tempfile.TemporaryDirectory(prefix="afo-freshness-") as scratch:
        results = [*freshness(Path(scratch)), *bytes_of_changes(Path(scratch))]
    return 0 if publish("freshness", results) else MISSED


class Answered(NamedTuple):
    """A version: when its newest gradient was applied, when it was there, and when it answered first."""

    trained_at: float
    written_at: float
    answered_at: float


class Watched(NamedTuple):
    """Versions that answered, and requests meanwhile."""

    versions: dict[int, Answered]
    asked: int
    failed: list[str]


class Jobs:
    """Jobs on this machine, with directories of their own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        homes = {"AFO_STATE_DIR": str(scratch / "state"), "AFO_JOBS_ROOT": str(scratch / "jobs")}
        self._environment = os.environ | homes

    def afo(self, *words: str) -> str:
        """What the command prints."""
        done = subprocess.run([sys.executable, "-m", "afo_client", *words], env=self._environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(f"afo {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def file(self, name: str, batch: int, **sections: object) -> str:
        """A job file on the records of `name`."""
        job = {
            "name": name,
            "roles": {"ps": {"memory": "6 GiB"}, "worker": {"memory": "3 GiB"}},
            "data": {"schema": "schema.yaml", "train": [f"{name}/*"], "batch_size": batch, "sample_id": "sample_id",
                     "epochs": 1 if name == "fill" else 1_000_000, "shuffle": {"files": False, "buffer": 0}},
            "model": {"parts": "deep", "hidden_units": [64, 32], "embedding": {"dim": DIM}},
            **sections,
        }  # fmt: skip
        path = self.scratch / f"{name}.json"
        path.write_text(json.dumps(job))
        return str(path)


def write_data(scratch: Path) -> bytes:
    """Records that have each id once, and such of random ids; returns one of these."""
    features = tuple(Feature(name=f"c{n}", kind="categorical") for n in range(FEATURES))
    schema = Schema(label="click", sample_id="sample_id", features=features)
    (scratch / "schema.yaml").write_text(schema.to_yaml())
    random = np.random.default_rng(1)
    for name, count in (("fill", IDS), ("touch", RECORDS)):
        (scratch / name).mkdir()
        with RecordWriter(str(scratch / name / "part-0.tfrecord")) as writer:
            for first in range(0, count, _PIECE):
                numbers = np.arange(first, min(count, first + _PIECE), dtype=np.int64)
                ids = np.repeat(numbers[:, np.newaxis], FEATURES, axis=1)
                if name == "touch":
                    ids = random.integers(0, IDS, ids.shape)
                columns = {f"c{n}": ids[:, n] for n in range(FEATURES)}
                columns |= {"click": random.integers(0, 2, len(numbers)), "sample_id": numbers}
                writer.write_all(encode_columns(columns))
    return encode_columns({f"c{n}": np.array([n], np.int64) for n in range(FEATURES)})[0]


def freshness(scratch: Path) -> list[dict[str, object]]:
    """Of a job that trains, and a server of its versions: in a directory of this machine, and in HDFS."""
    jobs, record = Jobs(scratch), write_data(scratch)
    began = time.perf_counter()
    models = scratch / "models"
    filled = jobs.file("fill", 1024, checkpoint={"dir": str(models)}, export={"tables": "native"})
    jobs.afo("submit", filled, "--runtime", "local", "--wait")
    print(f"{FEATURES * IDS:,} rows after {time.perf_counter() - began:.0f} s", flush=True)
    [source] = models.iterdir()
    cluster = Cluster(scratch / "hadoop")
    try:
        cluster.start(ClusterSpec(nodes=1))
        return [
            each for base, place in ((str(scratch / "ctr"), "here"), (f"{cluster.hdfs_uri}/ctr", "in HDFS"))
            for each in freshness_of(jobs, source, base, place, record)
        ]  # fmt: skip
    finally:
        cluster.stop()


def freshness_of(jobs: Jobs, source: Path, base: str, place: str, record: bytes) -> list[dict[str, object]]:
    """Of versions in one place."""
    every = f"{EVERY_S}s"
    touched = jobs.file(
        "touch", BATCH, checkpoint={"every": every, "full_every": 200, "warm_start": str(source)},
        export={"dir": base, "tables": "native", "every": every, "deltas": True, "full_every": 64, "keep": 5},
    )  # fmt: skip
    job = jobs.afo("submit", touched, "--runtime", "local", "--detach").strip()
    try:
        watched = watch(base, jobs.scratch, record)
    finally:
        jobs.afo("kill", job)
    events = read_log(JobPaths(str(jobs.scratch / "jobs"), job).events)
    print_parts(watched, [each for each in events if isinstance(each.event, VersionExported)])
    waited = until_answered(list(watched.versions.values())[FIRST:])
    print(
        f"{place}: gradient to answer: p50 {np.percentile(waited, 50):.1f} s, longest {max(waited):.1f} s", flush=True
    )
    answers = watched.asked - len(watched.failed)
    return [
        result(f"gradient to answer, 95th percentile, versions {place}", float(np.percentile(waited, 95)), BAR_S, "s",
               1.0, lower_is_better=True),
        result(f"requests answered meanwhile, versions {place}", answers, watched.asked, "requests", 1.0,
               lower_is_better=False),
    ]  # fmt: skip


def watch(base: str, scratch: Path, record: bytes) -> Watched:
    """Ask until so many versions have answered."""
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    while not any(storage.name(each.url).isdigit() for each in listed(base)):
        time.sleep(0.1)
    server = Served(base, scratch)
    watched = Watched({}, 0, [])
    with grpc.insecure_channel(server.address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_request(record)
        while len(watched.versions) < FIRST + VERSIONS:
            watched = watched._replace(asked=watched.asked + 1)
            try:
                version = stub.Predict(request, timeout=10).model_spec.version.value
            except grpc.RpcError as error:
                watched.failed.append(str(error.code()))
                continue
            if version not in watched.versions:
                watched.versions[version] = seen(storage.join(base, str(version)))
            time.sleep(PAUSE_S)
    server.stop()
    return watched


def listed(base: str) -> list[storage.FileInfo]:
    """What lies there, if anything does."""
    return storage.list_dir(base) if storage.exists(base) else []


def seen(version: str) -> Answered:
    """A version that has just answered."""
    answered_at = time.time()
    trained_at = export_info.read(version).trained_at
    assert trained_at is not None
    # A local directory says when it was renamed, one in HDFS when its last file was put there.
    is_local = version.startswith("/")
    written_at = Path(version).stat().st_ctime if is_local else storage.info(version).modified
    return Answered(trained_at, written_at, answered_at)


def predict_request(record: bytes) -> Any:
    """Of one record."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ctr"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(np.array([record], object)))
    return request


def until_answered(versions: list[Answered]) -> list[float]:
    """For a moment of training in each tenth of a second, how long it takes until an answer has it."""
    waited, at = [], versions[0].trained_at
    for version in versions[1:]:
        while (at := at + 0.1) <= version.trained_at:
            waited.append(version.answered_at - at)
        at -= 0.1
    return waited


def print_parts(watched: Watched, exports: list[Record]) -> None:
    """Where the time goes, medians."""
    began = {each.event.version: each.time - each.event.seconds for each in exports}  # type: ignore[union-attr]
    size = {each.event.version: each.event.bytes for each in exports}  # type: ignore[union-attr]
    later = list(watched.versions.items())[FIRST:]
    median = float(np.median([size[number] for number, _ in later]))
    share = median / (ROW_BYTES + INDEX_BYTES) / (FEATURES * IDS)
    parts = {
        "between versions": np.diff([each.trained_at for _, each in later]),
        "gradient to export (checkpoint)": [began[number] - each.trained_at for number, each in later],
        "export": [each.written_at - began[number] for number, each in later],
        "version to answer": [each.answered_at - each.written_at for _, each in later],
    }
    words = (f"{name} {np.median(of):.2f} s (at most {max(of):.2f})" for name, of in parts.items())
    print(f"{len(later)} versions, median {median / 1e6:.1f} MB, some {share:.1%} of the rows; {'; '.join(words)}",
          flush=True)  # fmt: skip


def bytes_of_changes(scratch: Path) -> list[dict[str, object]]:
    """Of the files of tables' changes, against their rows."""
    from afo.tables.merged_rows import MergedRows
    from afo.trainable.served.rows_file import ChangedRows, Parent, write_rows

    random, results = np.random.default_rng(1), []
    for share in (0.001, 0.01, 0.1):
        count = int(share * TABLE_ROWS)
        rows = MergedRows(DIM, scratch)
        records = np.zeros(count, rows.record)
        records["key"] = np.sort(random.choice(2**62, count, replace=False))
        records["order"], records["weights"] = 1, random.normal(0, 0.05, records["weights"].shape)
        rows.add_run([records])
        file = scratch / "changes"
        with file.open("wb") as out:
            write_rows(out, ChangedRows(rows, Parent(1, "../../1764403200/assets/table-0.rows")), 0.0, "float32")
        name = f"bytes of the changes of {100 * share:g} % of {TABLE_ROWS:,} rows, against the rows' + 10 %"
        results.append(result(name, file.stat().st_size, 1.1 * count * ROW_BYTES, "B", 1.0, lower_is_better=True))
    return results


if __name__ == "__main__":
    sys.exit(main())

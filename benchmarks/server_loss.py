"""How long a job of `engine: psplus` stands still when a parameter server dies.

The processes of a job, two workers and two servers, started as the Child starts them, and driven by the tests' master
(tests/support/training_job.py): so the time in which an Application Master sees the death and starts a process in its
place, which docs/restarts.md has, is not in it. One server is killed after a checkpoint; the other one and the workers
stay.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))
import training_job
from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import Schema
from afo.formats.units import Duration
from afo.job import Checkpoint, Data, Embedding, Job, Model, RoleSpec, Train

FEATURES, DIM, FILES = 20, 64, 8
SCHEMA = Schema(
    label="label",
    sample_id="sample_id",
    features=tuple(Feature(name=f"c{n}", kind="categorical", hash_buckets=10**9) for n in range(FEATURES)),
)


def seconds_until_all_step(rows: int) -> tuple[float, int]:
    """From the kill of one of two servers until every worker has stepped again, and the bytes of the checkpoint.

    `rows` of the tables together, of 512 bytes each.
    """
    with tempfile.TemporaryDirectory() as scratch, _running(Path(scratch), rows) as run:
        workers = [run.start("worker", number) for number in range(2)]
        training_job.wait_until(lambda: len(run.master.acks) >= FILES, "all records were read once")
        before = len(run.master.checkpoints)
        training_job.wait_until(lambda: len(run.master.checkpoints) > before, "a checkpoint of all rows is made")
        report = run.master.checkpoints[-1]
        began = time.perf_counter()
        run.kill("ps:1")
        run.master.restore = report.manifest
        run.next_generation((1,))
        served = time.perf_counter() - began
        training_job.wait_until(lambda: all(_steps(run, name) for name in workers), "all workers step again")
        seconds = time.perf_counter() - began
        print(f"the new server serves after {served:.2f} s, all workers step after {seconds:.2f} s")
        return seconds, sum(each.stat().st_size for each in Path(report.manifest).parent.rglob("*") if each.is_file())


def _steps(run: Any, name: str) -> bool:
    """Whether a worker has applied a batch since."""
    if (code := run.processes[name].poll()) is not None:
        raise SystemExit(f"{name} ended with {code}:\n{run.stderr(name)}")
    told = run.progress[name]
    return bool(told.generation == run.generation and told.phase == "training" and told.samples)


@contextmanager
def _running(scratch: Path, rows: int) -> Iterator[Any]:
    """Servers of a job whose records last."""
    _write(scratch / "data", rows)
    job = Job(
        name="loss", engine="psplus", roles={"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2)},
        data=Data(schema="schema.yaml", train=(f"{scratch}/data/*",), sample_id="sample_id", batch_size=512, epochs=99),
        model=Model(hidden_units=(64,), embedding=Embedding(dim=DIM, storage="hash_table")),
        train=Train(pipeline=1),
        checkpoint=Checkpoint(on_ps_loss="partial", every=Duration(3)),
    )  # fmt: skip
    schema = scratch / "schema.yaml"
    schema.write_text(SCHEMA.to_yaml())
    training_job.start_task = _started
    run = training_job.JobRun(job, schema, scratch)
    try:
        run.start_servers()
        yield run
    finally:
        run.close()


def _write(folder: Path, rows: int) -> None:
    """Records of as many different values as there are to be rows."""
    folder.mkdir()
    each = max(1, rows // FEATURES // FILES)
    for file in range(FILES):
        with RecordWriter(str(folder / f"part-{file}.tfrecord")) as writer:
            for number in range(file * each, (file + 1) * each):
                values: dict[str, Any] = {f"c{n}": [number] for n in range(FEATURES)}
                writer.write(encode(values | {"label": [number % 2], "sample_id": [number]}))


def _started(task_file: Path, progress_fd: int, stderr: Path) -> "subprocess.Popen[bytes]":
    """A process of its own, which begins without TensorFlow, as a Child's does."""
    with stderr.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "afo.train", str(task_file)], pass_fds=[progress_fd], stderr=errors
        )

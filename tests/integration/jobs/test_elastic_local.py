"""More and fewer workers, and a slow one: real jobs on the `local` runtime."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

from afo.events import types as ev
from click_records import SCHEMA, expected_acks, write_files
from live_job import LiveJob, acknowledged, afo

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(1200)]

FILES, RECORDS, EPOCHS = 12, 3000, 4


def submit(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> LiveJob:
    """A job with one parameter server and 1 to 3 workers, in the middle of its work."""
    monkeypatch.setenv("AFO_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    write_files(folder / "train", FILES, RECORDS)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "elastic",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": {"min": 1, "max": 3}, "memory": "1 GiB"}},
        "data": {
            "schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 16,
            "epochs": EPOCHS, "shuffle": {"buffer": 500},
        },
        "model": {"hidden_units": [16], "embedding": {"dim": 4}},
        "checkpoint": {"every": "3s"},
        **options,
    }  # fmt: skip
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")


def every_sample_once(job: LiveJob) -> None:
    """Each (file, epoch) was acknowledged with the file's own count and xor, and the final model holds them."""
    expected = expected_acks(FILES, RECORDS)
    assert acknowledged(job) == {(row, epoch): expected[row] for row in range(FILES) for epoch in range(EPOCHS)}
    assert len(job.events(ev.SplitDone)) == FILES * EPOCHS
    final = [event for event in job.events(ev.CheckpointWritten) if event.final][-1]
    assert sorted(final.positions) == [(row, EPOCHS - 1, *expected[row]) for row in range(FILES)]


def workers(job: LiveJob) -> dict[str, str]:
    """State of each worker; empty while nobody answers."""
    status = job.status()
    return {str(each.task): each.state for each in status.tasks if each.task.role == "worker"} if status else {}


def train_together(job: LiveJob, *indices: int) -> None:
    """Until each of these workers has a file that it took after the last change."""
    seen = len(job.events(ev.SplitLeased))
    job.wait(
        lambda: {each.task.index for each in job.events(ev.SplitLeased)[seen:]} >= set(indices), f"{indices} train"
    )


@pytest.mark.slow
def test_a_job_is_scaled_up_and_down_and_each_sample_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(tmp_path, monkeypatch)
    job.wait(lambda: bool(workers(job)), "the Application Master answers")
    assert afo("scale", job.id, "worker=2").returncode == 0
    job.wait(lambda: workers(job).get("worker:2") == "scaled away", "two workers")
    train_together(job, 0, 1)
    assert "3 workers wanted, 2 before" in afo("scale", job.id, "worker=3").stderr
    job.wait(lambda: any(str(each.task) == "worker:2" for each in job.events(ev.SplitLeased)), "the third trains")
    assert afo("scale", job.id, "worker=1").returncode == 0
    job.wait(lambda: list(workers(job).values())[1:] == ["scaled away"] * 2, "one worker")
    again, refused = afo("scale", job.id, "worker=1"), afo("scale", job.id, "worker=4")
    assert "wanted already" in again.stderr
    assert (refused.returncode, "`roles.worker.instances` of the job file allows 1 to 3" in refused.stderr) == (2, True)
    assert "containers 2/2" in afo("status", job.id).stdout
    verdict = job.verdict(800)
    assert (verdict.state, verdict.restarts) == ("SUCCEEDED", 0), job.story()
    every_sample_once(job)
    assert [(each.number, each.before) for each in job.events(ev.WorkersScaled)] == [(2, 3), (3, 2), (1, 3)]
    ends = [(str(each.task), each.task.attempt) for each in job.events(ev.TaskEnded) if each.cause == "scaled_away"]
    assert sorted(ends) == [("worker:1", 0), ("worker:2", 0), ("worker:2", 1)]
    job.wait_for_no_process()


@contextmanager
def slowed(process: psutil.Process) -> Iterator[None]:
    """The process stands still for nine tenths of the time."""
    over = threading.Event()

    def hamper() -> None:
        try:
            while not over.is_set():
                process.suspend()
                over.wait(0.9)
                process.resume()
                over.wait(0.1)
        except psutil.NoSuchProcess:
            return

    thread = threading.Thread(target=hamper)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_a_slow_worker_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(tmp_path, monkeypatch, restart={"slow": {"below": 0.4, "over": "10s"}})
    train_together(job, 0, 1, 2)
    with slowed(job.trainer("worker", 1)):
        job.wait(lambda: bool(job.events(ev.TaskSlow)), "a slow worker is found")
        job.wait(lambda: any(each.cause == "slow" for each in job.events(ev.TaskEnded)), "it leaves")
    found = job.events(ev.TaskSlow)[0]
    assert (str(found.task), found.stays) == ("worker:1", "")
    assert 0 < found.samples_per_s < 0.4 * found.median
    assert job.verdict(800).state == "SUCCEEDED", job.story()
    every_sample_once(job)

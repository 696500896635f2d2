"""Tasks that stand still for good: real jobs on the `local` runtime."""

from pathlib import Path

import pytest
import yaml

from afo import events as ev
from click_records import SCHEMA, write_files
from live_job import LiveJob, afo

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]


def submit(folder: Path, monkeypatch: pytest.MonkeyPatch, stall: str) -> LiveJob:
    """A job with one parameter server and two workers, which has much to do."""
    monkeypatch.setenv("AFO_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    write_files(folder / "train", 4, 2000)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "standstill",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1 GiB"}},
        "data": {"schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 16,
                 "epochs": 1000},
        "model": {"hidden_units": [16], "embedding": {"dim": 4}},
        "timeouts": {"hang": "4s", "stall": stall},
    }  # fmt: skip
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")


def train(job: LiveJob, after: int) -> None:
    """Until both workers are done with a file after that many were done."""
    seen = lambda: {event.task.index for event in job.events(ev.SplitDone)[after:]}  # noqa: E731
    job.wait(lambda: seen() == {0, 1}, "both train")


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced_and_a_job_in_which_all_hang_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(tmp_path, monkeypatch, "40s")
    train(job, 0)
    job.trainer("worker", 1).suspend()
    job.wait(lambda: bool(job.events(ev.TaskEnded)), "it is missed")
    (lost,) = job.events(ev.TaskEnded)
    assert (str(lost.task), lost.cause) == ("worker:1", "hung"), job.story()
    assert "while others trained" in lost.message
    train(job, job.splits_done())
    for index in (0, 1):
        job.trainer("worker", index).suspend()
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("FAILED", "stalled"), job.story()
    assert "no task made progress for 40s (`timeouts.stall`)" in verdict.diagnostics
    job.wait_for_no_process()


@pytest.mark.slow
def test_a_parameter_server_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(tmp_path, monkeypatch, "10m")
    train(job, 0)
    server = job.trainer("ps", 0)
    server.suspend()
    job.wait(lambda: bool(job.events(ev.TaskEnded)), "it is missed")
    (lost,) = [end for end in job.events(ev.TaskEnded) if end.task.role == "ps"]
    assert (str(lost.task), lost.cause) == ("ps:0", "unresponsive"), job.story()
    assert "(stopped by a signal, state T), and all workers wait" in lost.message
    train(job, job.splits_done())
    assert not server.is_running()
    assert afo("kill", job.id).returncode == 0
    assert job.verdict().state == "KILLED"
    job.wait_for_no_process()

"""Tasks come back: real jobs on the `local` runtime, whose processes are killed with SIGKILL."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from afo import events as ev
from click_records import SCHEMA, expected_acks, write_files
from live_job import LiveJob, acknowledged

pytestmark = pytest.mark.tensorflow

FILES, RECORDS, EPOCHS = 10, 2000, 2


@pytest.fixture(scope="module")
def job_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with two parameter servers, two workers and an evaluator; some thousand small steps."""
    folder = tmp_path_factory.mktemp("faults")
    write_files(folder / "train", FILES, RECORDS)
    write_files(folder / "eval", 1, 2000, first_id=10**6)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "faults",
        "roles": {
            "ps": {"instances": 2, "memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1 GiB"}, "evaluator": {},
        },
        "data": {
            "schema": "schema.yaml", "train": ["train/*"], "eval": ["eval/*"], "sample_id": "sample_id",
            "batch_size": 32, "epochs": EPOCHS, "shuffle": {"buffer": 500},
        },
        "model": {"hidden_units": [16], "embedding": {"dim": 4}},
        "checkpoint": {"every": "3s"},
        "train": {"eval_every": "3s"},
        # Its stacks may take a while on a busy machine; after three times as long it would be replaced.
        "timeouts": {"hang": "15s"},
    }  # fmt: skip
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


@pytest.fixture
def job(job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveJob:
    """The job, submitted and in the middle of its work."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    running = LiveJob.submit(job_file, str(tmp_path / "jobs"), "--runtime", "local")
    running.wait(lambda: running.splits_done() >= 3, "three files acknowledged")
    return running


def every_sample_once(job: LiveJob) -> None:
    """Each (file, epoch) was acknowledged with the file's own count and xor, and the final model holds them."""
    expected = expected_acks(FILES, RECORDS)
    assert acknowledged(job) == {(row, epoch): expected[row] for row in range(FILES) for epoch in range(EPOCHS)}
    final = [event for event in job.events(ev.CheckpointWritten) if event.final][-1]
    assert sorted(final.positions) == [(row, EPOCHS - 1, *expected[row]) for row in range(FILES)]


def requested_again(job: LiveJob) -> list[str]:
    """Tasks that got another container."""
    return [str(event.task) for event in job.events(ev.ContainerRequested) if event.task.attempt > 0]


def kill_ps_after_a_checkpoint(job: LiveJob) -> None:
    """So that there is a model to return to."""
    job.wait(lambda: bool(job.events(ev.CheckpointWritten)), "a checkpoint")
    job.kill(job.trainer("ps", 1))


def returned_to_a_checkpoint(job: LiveJob) -> bool:
    """The last generation began with a checkpoint of an earlier one, not from nothing."""
    ready = job.events(ev.VariablesReady)[-1]
    return ready.step > 0 and ready.restored in {event.manifest for event in job.events(ev.CheckpointWritten)}


Fault = Callable[[LiveJob], None]


@pytest.mark.parametrize(
    ("fault", "in_place", "moved", "generations"),
    [
        pytest.param(lambda job: job.kill(job.trainer("worker", 1)), ["worker:1"], [], 1, id="worker"),
        pytest.param(lambda job: job.kill(job.trainer("worker", 0)), ["worker:0"], [], 1, id="chief"),
        pytest.param(lambda job: job.kill(job.child("worker", 1)), [], ["worker:1"], 1, id="child"),
        pytest.param(kill_ps_after_a_checkpoint, ["ps:1"], [], 2, id="ps"),
        pytest.param(lambda job: job.kill(job.master()), [], [], 1, id="am"),
    ],
)
def test_what_is_killed_comes_back(
    job: LiveJob, fault: Fault, in_place: list[str], moved: list[str], generations: int
) -> None:
    fault(job)
    verdict = job.verdict()
    assert verdict.state == "SUCCEEDED", job.story()
    assert [str(event.task) for event in job.events(ev.ProcessEnded)] == in_place, job.story()
    assert requested_again(job) == moved, job.story()
    assert len(job.events(ev.GenerationStarted)) == generations
    assert returned_to_a_checkpoint(job) == (generations > 1)
    assert len(job.events(ev.AmStarted)) == (1 if in_place or moved else 2)
    every_sample_once(job)
    job.wait_for_no_process()


def test_a_task_that_hangs_says_where(job: LiveJob) -> None:
    stopped = job.trainer("worker", 1)
    stopped.suspend()
    job.wait(lambda: any(str(event.task) == "worker:1" for event in job.events(ev.TaskStalled)), "its stacks")
    stopped.resume()
    (stalled,) = [event for event in job.events(ev.TaskStalled) if str(event.task) == "worker:1"]
    assert stalled.seconds >= 15
    assert "afo/train/" in stalled.place
    assert job.verdict().state == "SUCCEEDED", job.story()
    assert "end of stacks" in (Path(job.paths.task_logs("worker", 1, 0)) / "stderr").read_text()
    assert requested_again(job) == []
    every_sample_once(job)

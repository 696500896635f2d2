"""Tasks come back: real jobs on the `local` runtime, whose processes are killed with SIGKILL."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from afo.checkpoint.manifest import read_manifest
from afo.events import event_log
from afo.events import types as ev
from click_records import SCHEMA, expected_acks, write_files
from live_job import LiveJob, acknowledged, afo

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
        "checkpoint": {"every": "2s", "full_every": 3, "keep": 100},
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
    """So that there is a model to return to, which stands on another."""
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) == 2, "two checkpoints")
    job.kill(job.trainer("ps", 1))


def returned_to_a_checkpoint(job: LiveJob) -> bool:
    """The last generation began with a checkpoint of an earlier one that holds changes alone, not from nothing."""
    ready = job.events(ev.VariablesReady)[-1]
    if not ready.restored or not ready.step:
        return False
    saved = [read_manifest(event.manifest) for event in job.events(ev.CheckpointWritten)]
    restored = read_manifest(ready.restored)
    assert restored in saved
    return restored.base in {each.directory for each in saved}


def samples_at(positions: tuple[tuple[int, int, int, int], ...]) -> int:
    """Samples that were applied up to there, by what the files hold."""
    return sum(count + epoch * expected_acks(FILES, RECORDS)[row][0] for row, epoch, count, _ in positions)


Stood = ev.CheckpointWritten | ev.VariablesReady


def acknowledged_before(job: LiveJob, event: Stood) -> set[tuple[int, int]]:
    """Files and epochs whose acknowledgement stands in the log before `event`."""
    records = [record.event for record in event_log.read_log(job.paths.events)]
    before = records[: records.index(event)]
    return {(done.split, done.epoch) for done in before if isinstance(done, ev.SplitDone)}


def acked_between(job: LiveJob, first: Stood, last: Stood) -> int:
    """Samples of the files that were acknowledged between two events."""
    rows = acknowledged_before(job, last) - acknowledged_before(job, first)
    return sum(expected_acks(FILES, RECORDS)[row][0] for row, _ in rows)


def open_samples(job: LiveJob, event: Stood) -> int:
    """Samples of files that were not acknowledged at an event, as far as its positions say that they were applied."""
    done = acknowledged_before(job, event)
    return sum(count for row, epoch, count, _ in event.positions if (row, epoch) not in done) - sum(
        expected_acks(FILES, RECORDS)[row][0] - count
        for row, epoch, count, _ in event.positions
        if (row, epoch) in done
    )


Fault = Callable[[LiveJob], None]


@pytest.mark.parametrize(
    ("fault", "in_place", "moved", "generations"),
    [
        pytest.param(
            lambda job: job.kill(job.trainer("worker", 1)), ["worker:1"], [], 1, id="worker", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda job: job.kill(job.trainer("worker", 0)), ["worker:0"], [], 1, id="chief", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda job: job.kill(job.child("worker", 1)), [], ["worker:1"], 1, id="child", marks=pytest.mark.slow
        ),
        pytest.param(kill_ps_after_a_checkpoint, ["ps:1"], [], 2, id="ps", marks=pytest.mark.slow),
        pytest.param(lambda job: job.kill(job.master()), [], [], 1, id="am", marks=pytest.mark.slow),
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


@pytest.mark.slow
def test_a_job_whose_checkpoints_were_deleted_says_so(job: LiveJob) -> None:
    kill_ps_after_a_checkpoint(job)
    shutil.rmtree(job.paths.checkpoints(""))
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("FAILED", "checkpoint_lost"), job.story()
    assert "no complete checkpoint is left" in verdict.diagnostics
    assert "begins anew" in afo("explain", job.id).stdout
    job.wait_for_no_process()


@pytest.mark.slow
def test_with_partial_recovery_the_others_keep_what_they_hold(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    options = ("--runtime", "local", "--set", "checkpoint.on_ps_loss=partial")
    job = LiveJob.submit(job_file, str(tmp_path / "jobs"), *options)
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) == 2, "two checkpoints")
    done = job.splits_done()
    job.wait(lambda: job.splits_done() > done, "a file acknowledged after it")
    survivor = job.trainer("ps", 0)
    job.kill(job.trainer("ps", 1))
    job.wait(lambda: len(job.events(ev.VariablesReady)) == 2, "the lost server's part restored")
    assert job.trainer("ps", 0) == survivor, "the same process, by its id and its start"
    assert job.verdict().state == "SUCCEEDED", job.story()

    (ended,), (_, ready) = job.events(ev.GenerationEnded), job.events(ev.VariablesReady)
    assert (ended.kept, ready.kept, ready.restored) == ((0,), (0,), ended.manifest)
    assert returned_to_a_checkpoint(job)
    records = [record.event for record in event_log.read_log(job.paths.events)]
    rest = records[records.index(ready) :]
    following = next(event for event in rest if isinstance(event, ev.CheckpointWritten))
    assert read_manifest(following.manifest).base is None, "what stood on the lost server's part is no ground any more"
    before, after = (event.ps for event in job.events(ev.GenerationStarted))
    assert (before[0], before[1] != after[1]) == (after[0], True)
    assert requested_again(job) == []
    acks = Counter((done.split, done.epoch) for done in job.events(ev.SplitDone))
    assert set(acks.values()) == {1}, "nothing that was done is done again"
    every_sample_once(job)

    saved = next(event for event in job.events(ev.CheckpointWritten) if event.manifest == ready.restored)
    assert ready.lost_samples == samples_at(ready.positions) - samples_at(saved.positions) > 0
    # The same by the acknowledgements: those of the time between, and what was applied of open files before and after.
    acked = acked_between(job, saved, ready)
    assert ready.lost_samples == acked + open_samples(job, ready) - open_samples(job, saved)
    told = f"the updates of {ready.lost_samples:,} samples are missing in the restored part"
    assert told in afo("status", job.id).stdout
    assert told in afo("explain", job.id).stdout
    job.wait_for_no_process()


@pytest.mark.slow
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

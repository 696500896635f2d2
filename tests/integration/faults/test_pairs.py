"""Jobs on a Hadoop of pairs: the active NameNode or ResourceManager dies while a job begins, trains or saves."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adult import REPOSITORY
from afo import storage
from afo.events import types as ev
from afo.site.config import user_name
from afo.yarn.resource_manager import from_configuration
from hadoop_pairs import TABLE, URL, PairedCluster, paired
from live_job import LiveJob, afo

pytestmark = [pytest.mark.pairs, pytest.mark.hadoop, pytest.mark.tensorflow, pytest.mark.timeout(1200)]

DEMO = REPOSITORY / "conf" / "jobs" / "demo.yaml"
HOME = f"{URL}/user/{user_name()}"
ROWS = 4000


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairedCluster]:
    """With a small data set."""
    with pytest.MonkeyPatch.context() as patch, paired(tmp_path_factory.mktemp("pairs")) as found:
        patch.setenv("AFO_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        made = afo("data", "synth", f"{HOME}/clicks", "--train", str(ROWS), "--eval", "500", "--train-files", "2")
        assert made.returncode == 0, made.stderr
        yield found


def submit(*changes: str, clicks: str = f"{HOME}/clicks") -> LiveJob:
    """A small job."""
    small = ("roles.ps.instances=1", "roles.worker.instances=1", "checkpoint.every=5s", *changes)
    settings = [f"--set={each}" for each in small]
    return LiveJob.submit(DEMO, f"{HOME}/.afo/jobs", "--runtime=yarn", f"--var=data={clicks}", *settings)


def begins(job: LiveJob) -> None:
    """Before it has asked for containers, or while it does."""
    assert not job.step()


def trains(job: LiveJob) -> None:
    """In the middle of its work."""
    job.wait(lambda: job.step() > 0, "training")


def saves(job: LiveJob) -> None:
    """While the chief writes a checkpoint."""
    begun = len(job.events(ev.CheckpointBegun))
    job.wait(lambda: len(job.events(ev.CheckpointBegun)) > begun, "a checkpoint")


@pytest.mark.parametrize("kind", ["nn", "rm"])
@pytest.mark.parametrize("phase", [begins, trains, saves])
def test_a_job_goes_on_when_the_active_one_dies(
    cluster: PairedCluster, kind: str, phase: Callable[[LiveJob], None]
) -> None:
    job = submit("data.epochs=100000")
    phase(job)
    before = time.monotonic()
    print(f"{kind}, {phase.__name__}: the other one is active after {cluster.fail_over(kind):.1f} s")
    trains(job)
    saved = len(job.events(ev.CheckpointWritten))
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) >= saved + 2, "further checkpoints")
    print(f"it saves after {time.monotonic() - before:.1f} s")
    assert {event.generation for event in job.events(ev.GenerationStarted)} == {1}, "nothing was lost"
    assert {event.count for event in job.events(ev.SplitDone)} == {ROWS // 2}
    assert from_configuration().application(job.id).state in ("ACCEPTED", "RUNNING")
    done = afo("kill", job.id)
    assert done.returncode == 0, done.stderr
    assert job.verdict().state == "KILLED"
    job.wait_for_no_process()


def test_a_container_is_replaced_after_a_fail_over_and_the_job_ends_well(cluster: PairedCluster) -> None:
    people = f"viewfs://{TABLE}/people/{user_name()}"
    model = f"export.dir={people}/model"
    job = submit("data.epochs=300", "data.batch_size=64", model, clicks=f"{people}/clicks")
    trains(job)
    cluster.fail_over("rm")
    cluster.fail_over("nn")
    os.kill(job.child("worker", 0).pid, 9)
    job.wait(lambda: any(event.task.attempt == 1 for event in job.events(ev.TaskRegistered)), "another worker")
    assert job.verdict(600).state == "SUCCEEDED", job.story()
    assert storage.exists(f"{HOME}/model/saved_model.pb")
    job.wait_for_no_process()

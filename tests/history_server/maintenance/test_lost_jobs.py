"""Jobs that vanished are closed, and those that go on are left alone."""

import fcntl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from afo import storage
from afo.errors import ClusterUnreachable, NotFound, PermissionDenied
from afo.events import types as ev
from afo.job_dir.local_job import KILLED, LOCK, am_dir, am_lock
from afo.site.user_state import UserState
from afo.yarn import resource_manager
from afo.yarn.resource_manager import Application
from afo_history_server.maintenance.job_actions import JobActions, Order
from afo_history_server.maintenance.lost_jobs import FORGOTTEN_S, SILENT_S, LostJobs, make_verdict
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_store import JobStore
from job_writer import JobWriter, task_id

GONE = "application_1763000000000_0009"
LOCAL = "local_1763000000000_0009"


class Yarn:
    """Answers as told; `asked` counts."""

    def __init__(self) -> None:
        self.answer: Application | Exception = NotFound("no such application")
        self.asked = 0

    def application(self, application_id: str) -> Application:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def application(state: str, finished: float, words: str = "AM exited with 137") -> Application:
    return Application(
        id=GONE, user="alice", name="n", queue="q", state=state, final_status=state, diagnostics=words,
        finished_ms=int(finished * 1000), vcore_seconds=7200, memory_seconds=2048 * 3600,
    )  # fmt: skip


@pytest.fixture
def yarn() -> Yarn:
    return Yarn()


@pytest.fixture
def lost(store: JobStore, yarn: Yarn, clock: list[float]) -> LostJobs:
    return LostJobs(store, lambda: yarn, lambda: clock[0])


@pytest.fixture
def gone(writer: Callable[..., JobWriter], clock: list[float]) -> JobWriter:
    """A job on YARN that trained for a while, and of which nothing more is heard."""
    job = writer(GONE, "gone", runtime="yarn").begin().task(task_id("worker"))
    job.log(ev.Sample(step=40, samples=4000, samples_per_s=10.0, input_wait=0.1, loss=0.5))
    clock[0] = job.at + SILENT_S + 100
    return job


def test_what_yarn_says_is_the_verdict(
    lost: LostJobs, store: JobStore, yarn: Yarn, gone: JobWriter, clock: list[float]
) -> None:
    yarn.answer = application("FAILED", gone.at + 5)
    assert lost.close_all() == [GONE]
    clock[0] += 10
    job, _ = store.job(GONE)
    assert (job.state, job.cause, job.step, job.samples) == ("FAILED", "master_lost", 40, 4000)
    assert job.diagnostics == "the Application Master ended without a verdict: AM exited with 137"
    assert (job.seconds, job.core_hours, job.memory_gb_hours) == (pytest.approx(gone.at + 5 - job.started), 2.0, 2.0)
    assert job.explanation is not None
    assert lost.close_all() == []
    assert yarn.asked == 1


@pytest.mark.parametrize(
    ("mark", "state", "words"),
    [
        ("", "FAILED", "the Application Master ended without a verdict: error: line 35: the event log is damaged"),
        (KILLED, "KILLED", "the Application Master ended without a verdict: ended by force"),
    ],
)
def test_a_local_job_is_over_once_its_processes_are_gone(
    lost: LostJobs, store: JobStore, yarn: Yarn, clock: list[float], writer: Callable[..., JobWriter],
    mark: str, state: str, words: str,
) -> None:  # fmt: skip
    job = writer(LOCAL, "gone", runtime="local").begin().task(task_id("worker"))
    Path(job.paths.am_log(1)).mkdir(parents=True)
    Path(job.paths.am_log(1), "stderr").write_text("INFO one\nerror: line 35: the event log is damaged\n")
    supervisor, container = am_lock(job.paths), am_dir(job.paths).parent / "containers" / "worker-0-0" / LOCK
    for lock in (supervisor, container):
        lock.parent.mkdir(parents=True)
        lock.touch()
    clock[0] = job.at + SILENT_S + 100
    for lock in (supervisor, container):
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert lost.close_all() == []
    if mark:
        (am_dir(job.paths) / mark).touch()
    yarn.answer = ClusterUnreachable("nobody answers")
    assert lost.close_all() == [LOCAL]
    assert yarn.asked == 0
    clock[0] += 10
    found, _ = store.job(LOCAL)
    assert (found.state, found.ended, found.cause) == (state, True, "killed_by_user" if mark else "master_lost")
    assert found.diagnostics == words


def test_restarts_of_one_that_vanished_are_those_of_its_tasks(store: JobStore, gone: JobWriter) -> None:
    """Another start of the Application Master, another number of workers and a return to a checkpoint are none."""
    gone.log(
        ev.AmStarted(am_attempt=1, incarnation=2, address="h:1", host="h", pid=2),
        ev.WorkersScaled(user="ann", number=3, before=2),
        ev.TaskEnded(task=task_id("worker", 1), cause="request_unanswered", code=None, message=""),
        ev.ContainerRequested(task=task_id("worker", 1, 1), memory=1, vcores=1, reason="after request_unanswered"),
        ev.GenerationEnded(generation=1, reason="ps:0 is gone", manifest=""),
    )
    assert make_verdict(store.job(GONE)[0], None).restarts == 0
    gone.log(
        ev.TaskEnded(task=task_id("worker"), cause="application_attempt_lost", code=None, message=""),
        ev.ContainerRequested(task=task_id("worker", 0, 1), memory=1, vcores=1, reason="after it"),
        ev.ProcessEnded(task=task_id("worker", 0, 1), cause="aborted", code=-6, message="", number=1),
    )
    assert make_verdict(store.job(GONE)[0], None).restarts == 2, "as the Application Master counts"


def test_one_that_was_killed_is_killed(
    lost: LostJobs, store: JobStore, yarn: Yarn, gone: JobWriter, clock: list[float]
) -> None:
    yarn.answer = application("KILLED", gone.at + 5, "killed by bob")
    lost.close_all()
    clock[0] += 10
    job, _ = store.job(GONE)
    assert (job.state, job.cause) == ("KILLED", "killed_by_user")


def test_who_ended_a_job_through_yarn_and_why_is_in_its_verdict(
    lost: LostJobs, store: JobStore, yarn: Yarn, gone: JobWriter, clock: list[float], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The server does not hold the job's secret, so nobody asks its Application Master."""
    killed: list[str] = []
    monkeypatch.setattr(resource_manager, "from_configuration", lambda user: SimpleNamespace(kill=killed.append))
    actions = JobActions(store, UserState(tmp_path / "state"))
    for reason in ("by mistake", "eats the queue"):
        actions.kill(Order(job=store.job(GONE)[0], user="bob", reason=reason))
    assert killed == [GONE, GONE]
    yarn.answer = application("KILLED", gone.at + 5, "Application killed by user dr.who")
    lost.close_all()
    clock[0] += 10
    job, _ = store.job(GONE)
    assert (job.state, job.cause) == ("KILLED", "killed_by_user")
    assert job.diagnostics.startswith("killed by bob by force: eats the queue; the Application Master ended without a ")


def test_who_ended_a_job_whose_master_died_of_it_is_in_its_verdict(
    lost: LostJobs, store: JobStore, yarn: Yarn, gone: JobWriter, clock: list[float]
) -> None:
    gone.log(ev.JobEnding(state="KILLED", cause="killed_by_user", diagnostics="killed by ann: enough"))
    Path(store.paths(GONE).kill).write_bytes(b"x" * 99_999)
    yarn.answer = application("FAILED", gone.at + 5)
    clock[0] = gone.at + SILENT_S + 100
    lost.close_all()
    clock[0] += 10
    job, _ = store.job(GONE)
    assert (job.state, job.cause) == ("KILLED", "killed_by_user")
    assert job.diagnostics.startswith("killed by ann: enough; the Application Master ended without a verdict: AM ")


@pytest.mark.parametrize("state", ["RUNNING", "ACCEPTED", "NEW_SAVING"])
def test_one_that_goes_on_is_left_alone(lost: LostJobs, yarn: Yarn, gone: JobWriter, state: str) -> None:
    yarn.answer = application(state, 0)
    assert lost.close_all() == []
    assert not storage.exists(gone.paths.verdict)


def test_the_am_has_time_for_its_own_verdict(lost: LostJobs, yarn: Yarn, gone: JobWriter, clock: list[float]) -> None:
    yarn.answer = application("FINISHED", clock[0] - 10)
    assert lost.close_all() == []
    gone.end("SUCCEEDED", "succeeded")
    clock[0] += 60
    assert lost.close_all() == []
    assert msgspec.json.decode(storage.read_bytes(gone.paths.verdict))["state"] == "SUCCEEDED"


def test_one_that_yarn_forgot_is_over_after_long_silence(
    lost: LostJobs, store: JobStore, yarn: Yarn, gone: JobWriter, writer: Callable[..., JobWriter],
    clock: list[float],
) -> None:  # fmt: skip
    waits = "application_1763000000000_0010"
    writer(waits, "waits in the queue of another cluster", runtime="yarn")
    assert lost.close_all() == []
    clock[0] = gone.at + FORGOTTEN_S + 1
    assert lost.close_all() == [GONE]
    clock[0] += 10
    assert store.job(GONE)[0].cause == "master_lost"
    assert store.job(waits)[0].state == "SUBMITTED"


def test_a_cluster_that_does_not_answer_closes_nothing(lost: LostJobs, yarn: Yarn, gone: JobWriter) -> None:
    yarn.answer = ClusterUnreachable("no ResourceManager")
    with pytest.raises(ClusterUnreachable):
        lost.close_all()
    assert not storage.exists(gone.paths.verdict)


def test_a_job_that_cannot_be_closed_keeps_no_other_open(
    lost: LostJobs, yarn: Yarn, gone: JobWriter, writer: Callable[..., JobWriter],
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    other = writer("application_1763000000000_0008", runtime="yarn").begin()
    yarn.answer = application("FAILED", gone.at + 5)
    create = JobFiles.create

    def refuses(self: JobFiles, url: str, data: bytes) -> None:
        if url == gone.paths.verdict:
            raise PermissionDenied(f"cannot write {url}")
        create(self, url, data)

    monkeypatch.setattr(JobFiles, "create", refuses)
    assert lost.close_all() == [other.paths.job_id]
    assert lost.close_all() == []
    assert caplog.text.count(f"{GONE} may have vanished, and cannot be closed from here: cannot write") == 1


@pytest.mark.usefixtures("done", "failed", "running")
def test_nobody_is_asked_about_jobs_that_end_or_talk_or_run_here(lost: LostJobs, yarn: Yarn) -> None:
    lost.close_all()
    assert yarn.asked == 0

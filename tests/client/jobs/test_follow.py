"""Following a job through a fake Application Master, its files, and a fake runtime."""

import contextlib
import fcntl
import json
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from afo.errors import ClusterUnreachable, NotFound, WaitTimeout
from afo.events import event_log
from afo.events import types as ev
from afo.events.event_tail import EventTail
from afo.failures.causes import CAUSES
from afo.formats import decoding
from afo.job.paths import JobPaths
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer
from afo.site.config import user_name
from afo_client.jobs import follow, kill
from afo_client.jobs import watch as watching
from afo_client.jobs.explanation import explain
from afo_client.jobs.failure_feed import FailureNews
from afo_client.jobs.ref import JobRef
from afo_client.jobs.status_line import status_line
from afo_client.jobs.summary import places, summary_json, summary_text
from afo_client.jobs.view import JobView, from_status
from afo_client.jobs.watch import CALL_S, JobWatch
from afo_client.runtimes.application import Application

JOB = "application_1_0001"
WORKER = m.TaskId(role="worker", index=0, attempt=0)
FINISHED = ev.JobFinished(
    state="SUCCEEDED", cause="succeeded", diagnostics="", metrics={"auc": 0.875}, samples=2_000_000, step=100,
    seconds=50.0, core_hours=4.0, memory_gb_hours=8.0, restarts=1, train_seconds=40.0, input_wait=0.25,
    bad_records=1_200,
)  # fmt: skip


class FakeRuntime:
    """A runtime that says what it is told, and remembers who was killed."""

    def __init__(self) -> None:
        self.answer: Application | Exception = Application(job_id=JOB, state="ACCEPTED")
        self.killed: list[str] = []
        self.on_kill = Application(job_id=JOB, state="KILLED", final="KILLED", diagnostics="by force")

    def application(self, job_id: str) -> Application:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def applications(self) -> list[Application]:
        return []

    def kill(self, job_id: str) -> None:
        self.killed.append(job_id)
        self.answer = self.on_kill


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL_S", 0.01)
    monkeypatch.setattr(kill, "GRACE_S", 0.2)
    monkeypatch.setattr(kill, "FORCE_S", 0.2)
    monkeypatch.setattr(kill, "GONE_S", 0.2)


@pytest.fixture
def ref(tmp_path: Path) -> JobRef:
    paths = JobPaths(str(tmp_path), JOB)
    Path(paths.events).mkdir(parents=True)
    return JobRef(JOB, "yarn", paths, "secret")


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def watch(ref: JobRef, runtime: FakeRuntime) -> Iterator[JobWatch]:
    watch = JobWatch(ref, runtime)
    yield watch
    watch.close()


def log(ref: JobRef, *events: ev.AnyEvent, first: int = 0) -> None:
    records = [
        event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=1.0 + seq, event=event)
        for seq, event in enumerate(events, first)
    ]
    with Path(ref.paths.events_segment(1, 1)).open("ab") as file:
        file.write(b"".join(map(event_log.encode_line, records)))


def started() -> ev.JobStarted:
    """As until version 4 of the log."""
    return ev.JobStarted(
        job_id=JOB, name="my job", user="ann", queue="q", runtime="yarn", afo_version="0", submitted=1.0,
        train_files=("a", "b"), eval_files=(), epochs=2,
    )  # fmt: skip


def finish(ref: JobRef, verdict: ev.JobFinished = FINISHED) -> None:
    Path(ref.paths.verdict).write_bytes(msgspec.json.encode(verdict))


def status(state: str = "TRAINING") -> m.StatusReply:
    progress = Progress(phase="training", step=7, samples=300, step_s=2.0)
    usage = m.Usage(rss=1 << 20)
    return m.StatusReply(
        job_id=JOB, name="my job", state=state, generation=1, message="", step=7, samples=700, samples_per_s=99.0,
        tasks=(m.TaskStatus(task=WORKER, state="registered", host="h1", progress=progress, usage=usage),),
        input_wait=0.25, loss=0.5, metrics={"auc": 0.75}, splits_done=1, splits_total=4, started=1.0,
    )  # fmt: skip


class FakeMaster:
    """An AM that answers Status, and on Kill does what the test says."""

    def __init__(self, ref: JobRef) -> None:
        self.asked = threading.Event()
        self.kills: list[m.KillRequest] = []
        self.on_kill: Callable[[], None] = lambda: None
        self._server = RpcServer({"Status": self._status, "Kill": self._kill}, "secret", "127.0.0.1")
        self._server.start()
        write_address(ref.paths.address, AmAddress(address=self._server.address, incarnation=1))

    def _status(self, request: m.StatusRequest) -> m.Message:
        self.asked.set()
        return status()

    def _kill(self, request: m.KillRequest) -> m.Message:
        self.kills.append(request)
        self.on_kill()
        return m.Empty()

    def stop(self) -> None:
        self._server.stop(0)


@pytest.fixture
def master(ref: JobRef) -> Iterator[FakeMaster]:
    master = FakeMaster(ref)
    yield master
    master.stop()


def test_a_running_job_is_asked_of_its_master(watch: JobWatch, master: FakeMaster) -> None:
    view = watch.look()
    assert (view.state, view.step, view.loss, view.containers) == ("TRAINING", 7, 0.5, (1, 1))
    assert view.tasks[0].samples_per_s == 150.0
    assert not view.ended


@contextmanager
def unreachable(how: str) -> Iterator[str]:
    """An address of this machine that behaves as if something lay between: where nobody ever answers, or comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as waiting:
        place = server.getsockname()
        if how == "refused":
            server.close()
        # The kernel drops what asks for more connections than wait already, as a firewall does.
        for _ in range(3 if how == "dropped" else 0):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(place)
        yield f"{place[0]}:{place[1]}"


def test_that_its_disk_is_full_is_said(
    watch: JobWatch, runtime: FakeRuntime, ref: JobRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    usage = shutil.disk_usage(ref.paths.dir)
    monkeypatch.setattr(watching.shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert watch.look().message == (
        f"the disk of {ref.paths.dir} is full, and the Application Master waits for room; make some"
    )
    monkeypatch.setattr(watching.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    assert watch.look().message == ""


@pytest.mark.parametrize("how", ["refused", "silent", "dropped"])
def test_a_master_that_is_not_reached_from_here_does_not_hold_up(
    watch: JobWatch, ref: JobRef, runtime: FakeRuntime, how: str
) -> None:
    log(ref, started(), ev.SplitDone(task=WORKER, split=0, epoch=0, count=1, xor=1))
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    with unreachable(how) as address:
        write_address(ref.paths.address, AmAddress(address=address, incarnation=1))
        began = time.monotonic()
        view = watch.look()
        assert time.monotonic() - began < CALL_S + 1
        assert (view.state, view.splits_done) == ("RUNNING", 1)
        assert f"no answer from the Application Master at {address}; this is what its event log" in status_line(view)
        assert kill.end_job(watch, "why").state == "KILLED"
        assert watch.master is not None
        with pytest.raises(ClusterUnreachable, match="does not answer"):
            watch.master.scale(m.ScaleRequest(user="ann", workers=2))
        assert time.monotonic() - began < 6 * CALL_S
    assert runtime.killed == [JOB]


def test_tasks_of_a_local_job_whose_containers_are_gone_have_ended(ref: JobRef, runtime: FakeRuntime) -> None:
    """Nobody writes that down while the Application Master waits for room on a full disk."""
    for index in range(2):
        task, container = m.TaskId(role="worker", index=index, attempt=0), f"worker-{index}-0"
        log(ref, ev.ContainerRunning(task=task, handle=container, container=container, host="h"), first=index)
    locks = [Path(ref.paths.dir, "containers", f"worker-{index}-0", "lock") for index in range(2)]
    for lock in locks:
        lock.parent.mkdir(parents=True)
        lock.touch()
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    with closing(JobWatch(JobRef(JOB, "local", ref.paths, ""), runtime)) as watch, locks[1].open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        view = watch.look()
    assert [task.state for task in view.tasks] == ["ended", "allocated"]
    assert view.containers == (1, 2)


def test_before_the_master_the_runtime_is_asked(watch: JobWatch, runtime: FakeRuntime) -> None:
    assert watch.look().state == "ACCEPTED"


def test_a_master_that_never_started_is_reported_with_the_runtimes_words(watch: JobWatch, runtime: FakeRuntime) -> None:
    runtime.answer = Application(job_id=JOB, state="FAILED", final="FAILED", diagnostics="AM exited with 127")
    view = follow.follow(watch)
    assert (view.state, view.message) == ("FAILED", "AM exited with 127")
    assert "AM exited with 127" in summary_text(view, places(watch.ref))


def test_an_application_without_a_verdict_never_succeeds(watch: JobWatch, runtime: FakeRuntime) -> None:
    runtime.answer = Application(job_id=JOB, state="FINISHED", final="SUCCEEDED")
    assert watch.look().state == "FAILED"


def test_a_failure_of_the_jobs_own_is_shown_while_it_goes_on(ref: JobRef) -> None:
    failures, view = FailureNews(ref.paths.events), JobView(job_id=JOB, state="TRAINING")
    ended = {"code": 1, "tail": "Traceback\n  line 7\nValueError: no \x1b[2Jage"}
    log(
        ref,
        started(),
        ev.TaskEnded(task=WORKER, cause="preempted", message="taken away", **ended),
        ev.ProcessEnded(task=WORKER, cause="user_exception", message="ValueError: no age", **ended),
    )
    assert failures.news(view) == [], "nothing has been restarted"
    assert failures.news(structs.replace(view, restarts=2)) == [
        f"worker:0 (attempt 0): preempted: taken away\n  what to do: {CAUSES['preempted'].advice}",
        "worker:0 (attempt 0): user_exception: ValueError: no age\n"
        "  | Traceback\n  |   line 7\n  | ValueError: no age\n"
        f"  what to do: {CAUSES['user_exception'].advice}",
    ]
    assert failures.news(structs.replace(view, restarts=2)) == []
    log(
        ref,
        *[ev.TaskEnded(task=WORKER, cause=cause, message="again", **ended) for cause in ("preempted", "disk_full")],
        first=3,
    )
    (told,) = failures.news(structs.replace(view, restarts=4))
    assert told.startswith("worker:0 (attempt 0): disk_full: again\n  what to do: ")


def test_files_that_a_return_to_a_checkpoint_undid_are_not_done(
    ref: JobRef, watch: JobWatch, runtime: FakeRuntime
) -> None:
    done = [ev.SplitDone(task=WORKER, split=row, epoch=0, count=1, xor=1) for row in range(3)]
    saved = ev.CheckpointWritten(
        task=WORKER, generation=1, step=1, manifest="m", positions=((0, 0, 1, 1), (1, 0, 1, 1)), final=False
    )
    back = [
        ev.GenerationEnded(generation=1, reason="ps:0 was lost", manifest="m"),
        ev.VariablesReady(task=WORKER, generation=2, restored="m", step=1),
    ]
    log(ref, started(), *done[:2], saved, done[2], *back)
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    assert watch.look().splits_done == 2
    log(ref, done[2], first=7)
    assert watch.look().splits_done == 3


@pytest.mark.parametrize("left", [None, b'{"state": "SUCC'])
def test_a_verdict_that_is_gone_or_damaged_is_taken_from_the_event_log(
    watch: JobWatch, ref: JobRef, runtime: FakeRuntime, left: bytes | None
) -> None:
    log(ref, started())
    runtime.answer = Application(job_id=JOB, state="FAILED", final="FAILED", diagnostics="ended without a verdict")
    if left is not None:
        Path(ref.paths.verdict).write_bytes(left)
        with pytest.raises(decoding.Malformed):
            watch.look()
    log(ref, FINISHED, first=1)
    view = watch.look()
    assert (view.state, view.cause, view.verdict) == ("SUCCEEDED", "succeeded", FINISHED)


def test_who_is_terminated_while_he_follows_says_that_the_job_goes_on(
    watch: JobWatch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(follow, "await_end", lambda *_: sys.exit(143))
    with pytest.raises(SystemExit, match="143"):
        follow.follow(watch)
    assert f"detached; {JOB} goes on: `afo wait {JOB}` follows it again" in capsys.readouterr().err


def test_the_verdict_ends_it(watch: JobWatch, ref: JobRef, master: FakeMaster) -> None:
    log(ref, started(), ev.SplitDone(task=WORKER, split=0, epoch=0, count=1, xor=1))
    finish(ref)
    view = follow.follow(watch)
    assert (view.state, view.name, view.user) == ("SUCCEEDED", "my job", "ann")
    assert (view.splits_done, view.splits_total) == (1, 4)
    text = summary_text(view, places(ref))
    assert "2,000,000 samples, 100 steps; 50 s in all, 40 s training" in text
    assert "50,000 samples/s, input wait 25%, 1 restart" in text
    assert "1,200 bad records skipped" in text
    assert "2 core-hours and 4 GB-hours per million samples" in text
    assert "auc 0.875" in text
    assert summary_json(view, places(ref), 0)["bad_records"] == 1_200
    assert f"{ref.paths.dir}/export" in text


def test_a_failed_job_shows_its_first_failure(watch: JobWatch, ref: JobRef) -> None:
    second = m.TaskId(role="ps", index=0, attempt=0)
    log(
        ref,
        started(),
        ev.TaskRegistered(task=WORKER, container="c", host="h", pid=1, log_url="L", environment={}),
        ev.TaskEnded(task=WORKER, cause="user_exception", code=1, message="it raised", tail="1\n\x1b[31mValueError: x"),
        ev.TaskEnded(task=second, cause="parameter_server_lost", code=1, message="later"),
        ev.JobEnding(state="FAILED", cause="user_exception", diagnostics="worker:0 failed", first_task=WORKER),
    )
    finish(ref, msgspec.structs.replace(FINISHED, state="FAILED", cause="user_exception", diagnostics="why"))
    view = watch.look()
    text = summary_text(view, places(ref))
    assert "failed task: worker:0 (attempt 0) on h: it raised" in text
    assert "  | ValueError: x" in text
    assert "The program raised an exception." in text
    fields = summary_json(view, places(ref), 1)
    assert (fields["cause"], fields["exit_code"]) == ("user_exception", 1)
    json.dumps(fields)


def test_waiting_has_an_end(watch: JobWatch) -> None:
    with pytest.raises(WaitTimeout, match="goes on"):
        follow.follow(watch, timeout_s=0.05)


def test_a_cluster_that_stays_silent_is_said(
    watch: JobWatch, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PATIENCE_S", 0.03)
    runtime.answer = ClusterUnreachable("no answer")
    with pytest.raises(ClusterUnreachable):
        follow.follow(watch)


def test_a_job_that_the_runtime_does_not_know(watch: JobWatch, runtime: FakeRuntime) -> None:
    runtime.answer = NotFound("no such application")
    with pytest.raises(NotFound):
        watch.look()


def test_ctrl_c_without_a_terminal_detaches(
    watch: JobWatch, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> JobView:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "look", interrupted)
    with pytest.raises(follow.Detached, match=f"afo kill {JOB}") as caught:
        follow.follow(watch)
    assert caught.value.exit_code == 130
    assert runtime.killed == []


def test_ctrl_c_answered_with_kill(watch: JobWatch, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_wants_kill", lambda job_id: True)
    looks = iter([KeyboardInterrupt()])
    real = watch.look

    def look(**asked: bool) -> JobView:
        for error in looks:
            raise error
        return real(**asked)

    monkeypatch.setattr(watch, "look", look)
    assert follow.follow(watch).state == "KILLED"
    assert runtime.killed == [JOB]


def killed(ref: JobRef) -> None:
    finish(ref, msgspec.structs.replace(FINISHED, state="KILLED", cause="killed_by_user"))


def test_kill_asks_the_master_first(watch: JobWatch, ref: JobRef, master: FakeMaster, runtime: FakeRuntime) -> None:
    def end() -> None:
        killed(ref)
        runtime.answer = runtime.on_kill

    master.on_kill = end
    assert kill.end_job(watch, "why").state == "KILLED"
    assert [kill.reason for kill in master.kills] == ["why"]
    assert runtime.killed == []


def test_kill_waits_until_the_runtime_has_ended_the_job_too(
    watch: JobWatch, ref: JobRef, master: FakeMaster, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill, "GONE_S", 30.0)
    looks: Iterator[bool | ClusterUnreachable] = iter([False, ClusterUnreachable("it restarts"), True])

    def is_gone() -> bool:
        if isinstance(found := next(looks), ClusterUnreachable):
            raise found
        return found

    monkeypatch.setattr(watch, "is_gone", is_gone)
    master.on_kill = lambda: killed(ref)
    assert kill.end_job(watch, "why").state == "KILLED"
    assert next(looks, None) is None
    assert runtime.killed == []


def test_a_master_that_outlives_its_verdict_is_left_to_its_last_command_and_told_of(
    watch: JobWatch, ref: JobRef, master: FakeMaster, runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]
) -> None:
    master.on_kill = lambda: killed(ref)
    assert kill.end_job(watch, "why").state == "KILLED"
    assert runtime.killed == []
    assert "has its verdict, and its Application Master has not ended" in capsys.readouterr().err


def test_a_local_job_that_is_ended_by_force_has_its_costs(ref: JobRef, watch: JobWatch, runtime: FakeRuntime) -> None:
    Path(ref.paths.job).write_text("{}")
    log(
        ref,
        started(),
        ev.ContainerRequested(task=WORKER, memory=2048, vcores=3600),
        ev.ContainerRunning(task=WORKER, handle="c", container="c", host="h"),
        *[ev.Sample(step=9, samples=80, samples_per_s=1.0, input_wait=0.1, loss=0.5)] * 4,
    )
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    view = kill.end_job(watch, "stuck")
    assert view.verdict is not None
    assert [task.state for task in view.tasks] == ["ended"], "nobody was left to write it down"
    assert view.verdict.core_hours == pytest.approx(4.0)
    assert view.verdict.memory_gb_hours == pytest.approx(8 / 3600)


def test_a_job_that_waits_has_nobody_to_be_asked(
    watch: JobWatch, ref: JobRef, runtime: FakeRuntime, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(ref.paths.job).write_text("{}")
    view = kill.end_job(watch, "wrong queue")
    assert (view.state, runtime.killed) == ("KILLED", [JOB])
    assert view.message == f"killed by {user_name()} before it had an Application Master: wrong queue"
    assert decoding.read(ref.paths.verdict, ev.JobFinished).cause == "killed_by_user"
    said = capsys.readouterr().err
    assert "waits for its Application Master; taken back from the cluster" in said
    assert "cannot be asked" not in said


@pytest.mark.parametrize("secret", [None, "secret"])
def test_who_ends_a_job_by_force_and_why_stays_with_it(
    ref: JobRef, runtime: FakeRuntime, secret: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its secret is not here, or its Application Master is not reached."""
    Path(ref.paths.job).write_text("{}")
    log(ref, started(), ev.Sample(step=9, samples=80, samples_per_s=1.0, input_wait=0.1, loss=0.5))
    runtime.answer = Application(job_id=JOB, state="RUNNING")
    runtime.on_kill = Application(
        job_id=JOB, state="KILLED", final="KILLED", diagnostics="Application killed by user", core_hours=2.5
    )
    with contextlib.closing(JobWatch(JobRef(JOB, "yarn", ref.paths, secret), runtime)) as watch:
        view = kill.end_job(watch, "too slow")
        told = explain(view, EventTail(ref.paths.events).poll())
    assert (view.state, view.message) == ("KILLED", f"killed by {user_name()} by force: too slow")
    assert (told.cause, told.diagnostics) == ("killed_by_user", view.message)
    kept = decoding.read(ref.paths.verdict, ev.JobFinished)
    assert (kept.step, kept.samples, kept.core_hours) == (9, 80, 2.5)
    assert "ending the job by force" in capsys.readouterr().err


def test_what_the_log_says_of_an_end_comes_before_the_words_of_the_runtime(
    watch: JobWatch, ref: JobRef, runtime: FakeRuntime
) -> None:
    runtime.answer = Application(job_id=JOB, state="KILLED", final="KILLED", diagnostics="Application killed by user")
    assert watch.look().message == "Application killed by user"
    watch.keep_reason("bob", "")
    assert watch.look().message == "killed by bob by force: no reason given"
    Path(ref.paths.kill).write_text("{}")
    assert watch.look().message == "Application killed by user", "what is damaged hides nothing"
    log(ref, started(), ev.JobEnding(state="KILLED", cause="killed_by_user", diagnostics="killed by ann: enough"))
    assert watch.look().message == "killed by ann: enough"


def test_kill_uses_force_when_the_master_does_not_end_it(
    watch: JobWatch, master: FakeMaster, runtime: FakeRuntime
) -> None:
    with pytest.raises(WaitTimeout):  # this master goes on answering
        kill.end_job(watch, "why")
    assert runtime.killed == [JOB]


def test_kill_of_an_ended_job_changes_nothing(watch: JobWatch, ref: JobRef, runtime: FakeRuntime) -> None:
    finish(ref)
    assert kill.end_job(watch, "why").state == "SUCCEEDED"
    assert runtime.killed == []


@pytest.mark.parametrize(
    ("progress", "left", "text"),
    [
        (0.0, None, "[>         ] 0%"),
        (0.529, 200.0, "[=====>    ] 52%, 4 min left"),
        (0.999, 3.2, "[=========>] 99%, 4 s left"),
        (0.1, 7500.0, "[=>        ] 10%, 2 h 5 min left"),
        (1.0, 5.0, "[==========] 100%"),
    ],
)
def test_the_live_line_says_how_far_it_is_and_how_long_it_takes(progress: float, left: float | None, text: str) -> None:
    view = from_status(structs.replace(status(), progress=progress, seconds_left=left))
    assert status_line(view).startswith(f"TRAINING · containers 1/1 · {text} · step 7 · ")


def test_nothing_is_foretold_where_the_end_is_not_known() -> None:
    assert status_line(from_status(status())).startswith("TRAINING · containers 1/1 · step 7 · ")


@pytest.mark.parametrize("number", [1e308, -1e308, -0.0, 5e-324])
def test_a_log_may_say_any_number_of_its_progress(number: float) -> None:
    view = from_status(structs.replace(status(), progress=number, seconds_left=number))
    line = status_line(view)
    assert "0%" in line, "of 0 or 100"
    assert len(line) < 1000


def test_nothing_is_left_of_an_ended_job() -> None:
    view = from_status(structs.replace(status(), progress=0.5, seconds_left=40.0))
    assert summary_json(view, {}, 0)["seconds_left"] == 40
    assert summary_json(structs.replace(view, state="KILLED"), {}, 8)["seconds_left"] is None

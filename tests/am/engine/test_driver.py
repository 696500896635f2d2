"""The engine with a real journal, real gRPC and real threads; containers are entries in a list."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from afo import __version__, storage
from afo.checkpoint import manifest
from afo.errors import ClusterUnreachable, StorageError
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo.process.bounded_command import Ran
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, AmClient, write_address
from afo.rpc.master import Master
from afo.rpc.server import RpcServer
from afo.rpc.wire import new_secret
from afo_am.core.core import Core
from afo_am.engine import driver
from afo_am.engine.driver import Driver
from afo_am.engine.journal import Journal
from afo_am.engine.replay import read_earlier
from afo_am.policy import verdict
from afo_am.runtime.base import ContainerInfo, FinalState, Node
from afo_am.state import commands as c
from fake_cluster import make_config


class ListedRuntime:
    """A runtime whose containers run at once, and that fails as often as it is told to."""

    def __init__(self) -> None:
        self.containers: dict[str, ContainerInfo] = {}
        self.tasks: dict[str, m.TaskId] = {}
        self.unreachable = 0
        self.refused = False
        self.verdict: tuple[str, str] | None = None
        self.fractions: list[float] = []
        #: Until it is set, nobody learns what the cluster has.
        self.surveyed = threading.Event()
        self.surveys = 0

    def request(self, task: m.TaskId, env: dict[str, str], *, more_memory: bool = False) -> str:
        if self.refused:
            raise StorageError("the disk is gone")
        if self.unreachable > 0:
            self.unreachable -= 1
            raise ClusterUnreachable("no route")
        handle = f"c{len(self.containers)}"
        self.containers[handle] = ContainerInfo(handle=handle, state="running", container=handle, host="h")
        self.tasks[handle] = task
        return handle

    def kill(self, handle: str) -> None:
        self.containers[handle] = ContainerInfo(handle=handle, state="ended")

    def list_containers(self) -> list[ContainerInfo]:
        return list(self.containers.values())

    def progress(self, fraction: float) -> None:
        self.fractions.append(fraction)

    def finish(self, state: FinalState, diagnostics: str) -> None:
        self.verdict = (state, diagnostics)

    def nodes(self) -> list[Node]:
        self.surveys += 1
        assert self.surveyed.wait(30)
        if self.surveys == 1:
            raise ClusterUnreachable("the ResourceManager is gone")
        return [Node(host="n", memory=3072, vcores=5)]

    def queue(self) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing is held."""


class RunningAm:
    """An AM in this process."""

    def __init__(self, root: Path, runtime: ListedRuntime, incarnation: int = 1, **job: object) -> None:
        config = msgspec.structs.replace(make_config(evaluator=False, **job), submitted=time.time())  # type: ignore[arg-type]
        self.paths = JobPaths(str(root), "local_1_0001")
        core = Core(config, now=0.0)
        earlier = read_earlier(self.paths, "")
        for record in earlier.records:
            core.replay(record.event, record.time)
        storage.make_dirs(self.paths.events)
        self.driver = Driver(
            core, Journal(self.paths, 1, incarnation, earlier.last_seq), runtime, self.paths, poll_s=0.05
        )
        secret = new_secret()
        names = ("Register", "Heartbeat", "NextSplit", "Status", "Kill", "ReportExit")
        self.server = RpcServer(dict.fromkeys(names, self.driver.ask), secret, "127.0.0.1")
        self.server.start()
        write_address(self.paths.address, AmAddress(address=self.server.address, incarnation=incarnation))
        self.master = Master(AmClient(self.paths.address, secret, patience_s=3))
        started = ev.AmStarted(am_attempt=1, incarnation=incarnation, address="", host="h", pid=1)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(started,))
        self.thread.start()

    def _run(self, started: ev.AmStarted) -> None:
        try:
            self.driver.run(started)
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self.thread.join(30)
        self.master.close()
        self.server.stop(0)
        assert not self.thread.is_alive()


@pytest.fixture
def runtime() -> ListedRuntime:
    return ListedRuntime()


@pytest.fixture
def am(tmp_path: Path, runtime: ListedRuntime) -> Iterator[RunningAm]:
    running = RunningAm(tmp_path, runtime)
    yield running
    if running.thread.is_alive():
        running.master.kill(m.KillRequest(user="test"))
    running.stop()


def events_of(paths: JobPaths, kind: type) -> list[object]:
    return [record.event for record in read_earlier(paths, "").records if isinstance(record.event, kind)]


def register(am: RunningAm, task: m.TaskId) -> m.Directive:
    return am.master.register(
        m.RegisterRequest(
            task=task, container="c", host="h", pid=1, afo_version=__version__, protocol=m.PROTOCOL, environment={},
            log_url="",
        )
    )  # fmt: skip


def test_a_decision_is_in_the_journal_before_its_reply(am: RunningAm, runtime: ListedRuntime) -> None:
    task = m.TaskId(role="ps", index=1, attempt=0)
    assert register(am, task).action == "wait"
    assert [event.task for event in events_of(am.paths, ev.TaskRegistered)] == [task]  # type: ignore[attr-defined]
    for handle in list(runtime.containers):
        runtime.kill(handle)


def test_status_and_kill_end_with_one_verdict_file(am: RunningAm, runtime: ListedRuntime) -> None:
    assert am.master.status().state == "STARTING"
    am.master.kill(m.KillRequest(user="bob", reason="enough"))
    am.stop()
    assert am.failure is None
    assert runtime.verdict == ("KILLED", "killed by bob: enough")
    verdict = msgspec.json.decode(storage.read_bytes(am.paths.verdict), type=ev.JobFinished)
    assert [verdict] == events_of(am.paths, ev.JobFinished)
    assert all(info.state == "ended" for info in runtime.containers.values())


def test_the_log_is_copied_before_the_verdict_says_that_the_job_is_over(
    tmp_path: Path, runtime: ListedRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`afo submit --wait` returns with the verdict, and its user reads the log next."""
    caplog.set_level("INFO", "afo.am")
    seen: list[tuple[bool, bool]] = []
    verdict = JobPaths(str(tmp_path), "local_1_0001").verdict
    monkeypatch.setattr(
        driver, "ask_for_copy", lambda: seen.append(("JobFinished" in caplog.text, storage.exists(verdict)))
    )
    am = RunningAm(tmp_path, runtime)
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    assert seen == [(True, False)]


def begin_save(am: RunningAm, runtime: ListedRuntime) -> Path:
    """The chief has begun a checkpoint; returns its directory, in which a file lies, beside a whole one."""
    core = am.driver._core
    core.state.saving = "g000001-0011aa"
    directory = Path(am.paths.checkpoints(""), core.state.saving)
    storage.write_bytes(f"{directory}/age.0.npy", b"half of it")
    whole = manifest.Manifest(
        version=manifest.FORMAT_VERSION, generation=1, step=5, final=False, directory="g000001-ff", rows={}, parts=(),
    )  # fmt: skip
    storage.write_bytes(f"{directory.parent}/g000001-ff/x.0.npy", b"whole")
    manifest.commit(str(directory.parent), whole)
    return directory


def test_a_checkpoint_that_was_being_written_goes_with_the_job(
    am: RunningAm, runtime: ListedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "afo.am")
    directory = begin_save(am, runtime)
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    assert am.failure is None
    left = sorted(path.name for path in directory.parent.iterdir())
    assert left == ["g000001-ff", "manifest-g000001-s000000000005.json"]
    assert f"removed an unfinished checkpoint: {directory}" in caplog.text


def test_an_unfinished_checkpoint_that_cannot_be_removed_is_named(
    am: RunningAm, runtime: ListedRuntime, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, *, recursive: bool) -> None:
        raise StorageError(f"cannot delete {url}: no")

    directory = begin_save(am, runtime)
    monkeypatch.setattr(manifest.storage, "delete", fail)
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    assert (am.failure, runtime.verdict) == (None, ("KILLED", "killed by bob: no reason given"))
    assert f"an unfinished checkpoint may be left in {directory.parent}: cannot delete {directory}: no" in caplog.text


def test_nothing_is_removed_while_a_container_may_run(
    am: RunningAm, runtime: ListedRuntime, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "HARD_LIMIT_S", 0.5)
    directory, kills = begin_save(am, runtime), list[str]()
    monkeypatch.setattr(runtime, "kill", kills.append)
    register(am, m.TaskId(role="ps", index=1, attempt=0))
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    assert directory.exists()
    assert f"an unfinished checkpoint may be left in {directory.parent}: " in caplog.text
    assert "may run still" in caplog.text


def test_the_users_command_runs_once_the_verdict_is_there(tmp_path: Path, runtime: ListedRuntime) -> None:
    seen = tmp_path / "seen"
    program = "import os, sys; open(sys.argv[1], 'a').write(str(os.path.exists(sys.argv[2])))"
    verdict = JobPaths(str(tmp_path), "local_1_0001").verdict
    command = ("python", "-c", program, str(seen), verdict)
    am = RunningAm(tmp_path, runtime, on_end=command)
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    assert seen.read_text() == "True"
    assert runtime.verdict is not None
    assert msgspec.json.decode(storage.read_bytes(am.paths.on_end), type=Ran).code == 0
    # YARN starts another application attempt for a job that was killed.
    again = ListedRuntime()
    RunningAm(tmp_path, again, incarnation=2, on_end=command).stop()
    assert seen.read_text() == "True"
    assert again.verdict == runtime.verdict


def test_a_command_whose_end_was_not_noted_runs_again(tmp_path: Path, runtime: ListedRuntime) -> None:
    seen = tmp_path / "seen"
    command = ("python", "-c", f"open({str(seen)!r}, 'a').write('run ')")
    am = RunningAm(tmp_path, runtime, on_end=command)
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    Path(am.paths.on_end).unlink()
    RunningAm(tmp_path, ListedRuntime(), incarnation=2, on_end=command).stop()
    assert seen.read_text() == "run run "


def test_an_unreachable_cluster_is_asked_again(tmp_path: Path, runtime: ListedRuntime) -> None:
    runtime.unreachable = 1
    am = RunningAm(tmp_path, runtime)
    am.master.status()
    am.master.kill(m.KillRequest(user="test"))
    am.stop()
    assert len(runtime.containers) == 4
    assert {str(task) for task in runtime.tasks.values()} == {"ps:0", "ps:1", "worker:0", "worker:1"}


def until(true: Callable[[], bool]) -> None:
    """Waits for a condition, 10 s at most."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_picture_of_the_cluster_holds_nothing_up_and_may_fail(am: RunningAm, runtime: ListedRuntime) -> None:
    am.driver._commands.put(c.LookAtCluster())
    until(lambda: runtime.surveys == 1)
    am.driver._commands.put(c.ShowProgress(0.5))
    am.driver._commands.put(c.LookAtCluster())  # while one is under way there is no other
    am.driver._commands.put(c.ShowProgress(0.6))
    until(lambda: 0.6 in runtime.fractions)
    assert am.master.status().state == "STARTING"
    assert runtime.surveys == 1
    runtime.surveyed.set()
    until(lambda: am.driver._surveyor is not None and not am.driver._surveyor.is_alive())
    am.driver._commands.put(c.LookAtCluster())
    until(lambda: am.driver._core.waiting._seen is not None)
    assert am.driver._core.waiting._seen == c.ClusterSeen((Node(host="n", memory=3072, vcores=5),), None)
    assert am.failure is None


def test_a_runtime_that_refuses_fails_the_job_with_its_words(tmp_path: Path, runtime: ListedRuntime) -> None:
    runtime.refused = True
    am = RunningAm(tmp_path, runtime)
    am.stop()
    assert runtime.verdict is not None
    assert runtime.verdict[0] == "FAILED"
    assert "the disk is gone" in runtime.verdict[1]


def test_a_second_start_replays_and_repeats_the_verdict(am: RunningAm, runtime: ListedRuntime, tmp_path: Path) -> None:
    am.master.kill(m.KillRequest(user="bob"))
    am.stop()
    again = ListedRuntime()
    second = RunningAm(tmp_path, again, incarnation=2)
    second.stop()
    assert second.failure is None
    assert again.verdict == runtime.verdict
    assert not again.containers


def put_directory_at(segment: Path) -> None:
    """In place of a file that the AM may be writing at this moment, which makes it anew."""
    for _ in range(100):
        segment.unlink(missing_ok=True)
        with suppress(FileExistsError):
            segment.mkdir()
            return
    raise AssertionError(f"{segment} is always there again")


def test_a_journal_that_cannot_be_written_stops_the_am(am: RunningAm) -> None:
    am.master.status()
    put_directory_at(Path(am.paths.events_segment(1, 1)))
    with pytest.raises(Exception, match=r"journal|not answer"):
        register(am, m.TaskId(role="ps", index=0, attempt=0))
    am.stop()
    assert isinstance(am.failure, StorageError)

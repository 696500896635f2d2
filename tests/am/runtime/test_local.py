"""The local runtime with real processes."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from afo.errors import ClusterUnreachable
from afo.failures.classify import classify_container
from afo.rpc.messages import TaskId
from afo_am.runtime.base import ContainerInfo, Runtime
from afo_am.runtime.local import LocalRuntime

WORKER = TaskId(role="worker", index=3, attempt=1)
SLEEP = [sys.executable, "-c", "import time; open('up', 'w').close(); time.sleep(600)"]


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def python(code: str) -> list[str]:
    """A command that runs `code`."""
    return [sys.executable, "-c", textwrap.dedent(code)]


def info(runtime: LocalRuntime, handle: str) -> ContainerInfo:
    """What the runtime says about one container."""
    return next(each for each in runtime.list_containers() if each.handle == handle)


def descendants_of_containers(job_dir: Path) -> list[psutil.Process]:
    """Processes that work below the job's directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(job_dir)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LocalRuntime]]:
    made: list[LocalRuntime] = []

    def build(command: list[str], grace_s: float = 15.0, **env: str) -> LocalRuntime:
        made.append(LocalRuntime(tmp_path, command, env, grace_s=grace_s))
        return made[-1]

    yield build
    for runtime in made:
        runtime.finish("KILLED", "end of the test")
        runtime.close()
    assert descendants_of_containers(tmp_path) == []


def test_is_a_runtime(make: Callable[..., LocalRuntime]) -> None:
    runtime: Runtime = make(SLEEP)
    assert runtime.nodes()[0].memory > 0


def test_exit_code_output_and_environment(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    code = "import os, sys; print({k: v for k, v in os.environ.items() if 'AFO' in k}); sys.exit(7)"
    runtime = make(python(code), AFO_A="1")
    handle = runtime.request(WORKER, {"AFO_B": "2"})
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code == 7
    assert info(runtime, handle).diagnostics == "exit code 7"
    text = (tmp_path / "containers" / handle / "stdout").read_text()
    for part in ("'AFO_ROLE': 'worker'", "'AFO_INDEX': '3'", "'AFO_ATTEMPT': '1'", "'AFO_A': '1'", "'AFO_B': '2'"):
        assert part in text
    assert f"'AFO_CONTAINER': '{handle}'" in text


def test_handles_are_unique_and_files_private(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    first, second = make(SLEEP), make(SLEEP)
    handles = [first.request(WORKER, {}), second.request(WORKER, {}), second.request(WORKER, {})]
    assert len(set(handles)) == 3
    until(lambda: all((tmp_path / "containers" / handle / "work" / "up").exists() for handle in handles))
    for handle in handles:
        directory = tmp_path / "containers" / handle
        assert directory.stat().st_mode & 0o077 == 0
        assert (directory / "stderr").stat().st_mode & 0o077 == 0


def test_kill_ends_grandchildren_in_their_own_session(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    runtime = make(
        python("""
            import subprocess, sys, time
            sleep = "import time; open('up', 'w').close(); time.sleep(600)"
            subprocess.Popen([sys.executable, '-c', sleep], start_new_session=True)
            time.sleep(600)
        """)
    )
    handle = runtime.request(WORKER, {})
    until((tmp_path / "containers" / handle / "work" / "up").exists)
    runtime.kill(handle)
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code == -signal.SIGTERM
    assert info(runtime, handle).diagnostics == "ended by SIGTERM"
    assert descendants_of_containers(tmp_path) == []


def test_command_may_answer_sigterm_with_its_own_exit_code(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    runtime = make(
        python("""
            import signal, sys, time
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
            open('up', 'w').close()
            time.sleep(600)
        """)
    )
    handle = runtime.request(WORKER, {})
    until((tmp_path / "containers" / handle / "work" / "up").exists)
    runtime.kill(handle)
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code == 3


def test_a_child_killed_by_force_leaves_nothing_behind(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    runtime = make(
        python("""
            import os, subprocess, sys, time
            subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
            open('pid.partial', 'w').write(str(os.getpid()))
            os.rename('pid.partial', 'pid')
            time.sleep(600)
        """)
    )
    handle = runtime.request(WORKER, {})
    pid = tmp_path / "containers" / handle / "work" / "pid"
    until(pid.exists)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code == -signal.SIGKILL
    assert descendants_of_containers(tmp_path) == []


def test_kill_right_after_request_and_after_the_end(make: Callable[..., LocalRuntime]) -> None:
    runtime = make(SLEEP)
    handles = [runtime.request(WORKER, {}) for _ in range(4)]
    for handle in handles:
        runtime.kill(handle)
    until(lambda: all(info(runtime, handle).state == "ended" for handle in handles))
    for handle in handles:
        runtime.kill(handle)
    runtime.kill("never-asked-for-0")
    assert {each.state for each in runtime.list_containers()} == {"ended"}


def test_a_killed_wrapper_is_an_end_without_code_and_takes_its_command_along(
    make: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    runtime = make(SLEEP)
    handle = runtime.request(WORKER, {})
    directory = tmp_path / "containers" / handle
    until((directory / "work" / "up").exists)
    os.kill(int((directory / "lock").read_text()), signal.SIGKILL)
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code is None
    until(lambda: descendants_of_containers(tmp_path) == [])


def test_a_recorded_process_id_that_now_belongs_to_another_process_is_not_touched(
    make: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    runtime = make(python("pass"))
    handle = runtime.request(WORKER, {})
    until(lambda: info(runtime, handle).state == "ended")
    stranger = subprocess.Popen(SLEEP, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        (tmp_path / "containers" / handle / "lock").write_text(f"{stranger.pid}\n")
        runtime.kill(handle)
        assert info(runtime, handle).state == "ended"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_containers_survive_their_am_and_are_found_by_the_next(
    make: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    first_am = f"""
        import sys
        from pathlib import Path
        from afo.rpc.messages import TaskId
        from afo_am.runtime.local import LocalRuntime
        runtime = LocalRuntime(Path({str(tmp_path)!r}), {SLEEP!r}, {{}})
        print(runtime.request(TaskId(role='ps', index=0, attempt=0), {{}}))
    """
    handle = subprocess.run(python(first_am), check=True, capture_output=True, text=True).stdout.strip()
    restarted = make(SLEEP)
    until(lambda: info(restarted, handle).state == "running")
    until((tmp_path / "containers" / handle / "work" / "up").exists)
    assert restarted.request(TaskId(role="ps", index=0, attempt=0), {}) != handle
    restarted.kill(handle)
    until(lambda: info(restarted, handle).state == "ended")
    assert info(restarted, handle).exit_code == -signal.SIGTERM


def test_a_command_that_cannot_start_is_said(make: Callable[..., LocalRuntime]) -> None:
    runtime = make(["/nowhere/python"])
    handle = runtime.request(WORKER, {})
    until(lambda: info(runtime, handle).state == "ended")
    assert info(runtime, handle).exit_code is None
    assert "cannot start /nowhere/python" in info(runtime, handle).diagnostics


def test_finish_ends_a_container_that_ignores_sigterm(make: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); open('up', 'w').close(); time.sleep(600)"
    runtime = make(python(code), grace_s=0.2)
    handle = runtime.request(WORKER, {})
    until((tmp_path / "containers" / handle / "work" / "up").exists)
    runtime.finish("SUCCEEDED", "")
    assert info(runtime, handle).exit_code == -signal.SIGKILL


def test_without_a_descriptor_another_try_is_worth_it(make: Callable[..., LocalRuntime]) -> None:
    runtime = make(SLEEP)
    handle = runtime.request(WORKER, {})
    for call in (runtime.list_containers, lambda: runtime.request(WORKER, {}), lambda: runtime.kill(handle)):
        with no_descriptor_left(), pytest.raises(ClusterUnreachable, match="Too many open files"):
            call()
    assert info(runtime, handle).state in ("requested", "running")


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process opens nothing meanwhile; what is open can be used."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Numbers from 3 on are refused. It is not 0, because `poll` takes no more descriptors than the limit says.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("disk", "words", "cause"),
    [
        ({}, "", "container_lost"),
        ({"f_bavail": 1}, ": No space left on device", "disk_full"),
        ({"f_favail": 0}, ": No space left on device", "disk_full"),
        ({"f_flag": os.ST_RDONLY}, ": Read-only file system", "not_writable"),
    ],
)
def test_a_process_that_never_started_for_its_disk_says_so(
    make: Callable[..., LocalRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    disk: dict[str, int], words: str, cause: str,
) -> None:  # fmt: skip
    runtime = make(SLEEP)
    (tmp_path / "containers" / "worker-3-1").mkdir()
    room = {"f_bavail": 9999, "f_frsize": 4096, "f_files": 9, "f_favail": 9, "f_flag": 0} | disk
    monkeypatch.setattr(os, "statvfs", lambda path: types.SimpleNamespace(**room))
    found = info(runtime, "worker-3-1")
    assert (found.state, found.diagnostics) == ("ended", f"its process never started{words}")
    assert classify_container(found.diagnostics, found.exit_code) == cause

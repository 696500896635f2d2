"""The supervisor with real processes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from afo.errors import SpecError
from afo_am.supervisor import pulse
from afo_am.supervisor.supervision import EXIT_TERMINATED, RestartBound


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def supervise(
    directory: Path,
    am: str,
    *,
    most: int = 3,
    stop_s: float = 20,
    parent: str = "0",
    redirect: str = "",
    silent_s: float = 60,
    room: int = 1 << 20,
) -> "subprocess.Popen[str]":
    """A supervisor of an AM that runs the text `am` in `directory`."""
    program = f"""
        import os, sys
        from afo_am.supervisor.supervision import RestartBound, Supervisor
        am = [sys.executable, "-c", {textwrap.dedent(am)!r}]
        bound = RestartBound({most}, 600, 0.01, 0.02)
        supervisor = Supervisor(am, bound, {parent}, {stop_s}, silent_s={silent_s}, room={room})
        code = supervisor.run()
        print("last words:", supervisor.last_words.splitlines())
        sys.exit(code)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    if redirect:
        command = ["bash", "-c", f'exec "$@" {redirect}', "bash", *command]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)


def starts(directory: Path) -> list[str]:
    """Incarnations that the AM wrote down."""
    file = directory / "starts"
    return file.read_text().split() if file.exists() else []


NOTE = "import os, sys, time; open('starts', 'a').write(os.environ['AFO_AM_INCARNATION'] + ' ')\n"


@pytest.mark.parametrize("code", [0, SpecError.exit_code])
def test_an_end_that_another_start_would_not_change(tmp_path: Path, code: int) -> None:
    supervisor = supervise(tmp_path, NOTE + f"sys.exit({code})")
    supervisor.communicate(timeout=30)
    assert (supervisor.returncode, starts(tmp_path)) == (code, ["1"])


def test_restarts_after_crash_and_kill_until_success(tmp_path: Path) -> None:
    ends = "n = int(os.environ['AFO_AM_INCARNATION'])\nos.kill(os.getpid(), 9) if n == 2 else sys.exit(n == 1)"
    am = NOTE + ends
    supervisor = supervise(tmp_path, am)
    output, _ = supervisor.communicate(timeout=30)
    assert (supervisor.returncode, starts(tmp_path)) == (0, ["1", "2", "3"])
    assert "(start 2): ended by signal 9" in output


def test_gives_up_with_the_last_exit_code(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, NOTE + "sys.exit(6)", most=3)
    output, _ = supervisor.communicate(timeout=30)
    assert (supervisor.returncode, starts(tmp_path)) == (6, ["1", "2", "3"])
    assert "giving up" in output


def test_sigterm_is_passed_on_and_ends_it(tmp_path: Path) -> None:
    am = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(1))\n" + NOTE + "time.sleep(600)"
    supervisor = supervise(tmp_path, am)
    until(lambda: starts(tmp_path))
    supervisor.terminate()
    supervisor.communicate(timeout=30)
    assert (supervisor.returncode, starts(tmp_path)) == (EXIT_TERMINATED, ["1"])


def test_an_am_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    am = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + NOTE + "time.sleep(600)"
    supervisor = supervise(tmp_path, am, stop_s=0.2)
    until(lambda: starts(tmp_path))
    supervisor.terminate()
    supervisor.communicate(timeout=30)
    assert supervisor.returncode == EXIT_TERMINATED


def am_pid(supervisor: "subprocess.Popen[str]") -> int:
    return psutil.Process(supervisor.pid).children()[0].pid


def gone(pid: int) -> bool:
    """No such process, or one that only waits to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_an_am_that_is_stopped_is_killed_and_started_again(tmp_path: Path) -> None:
    am = """
        from afo_am.supervisor import pulse
        pulse.begin()
        assert pulse.DESCRIPTOR not in os.environ
        if os.environ["AFO_AM_INCARNATION"] == "1":
            time.sleep(0.5)
            os.kill(os.getpid(), 19)
        open("before", "w").write(os.environ["AFO_AM_PREVIOUS_END"])
        """
    supervisor = supervise(tmp_path, NOTE + textwrap.dedent(am), silent_s=7)
    output, _ = supervisor.communicate(timeout=60)
    assert (supervisor.returncode, starts(tmp_path)) == (0, ["1", "2"])
    assert "silent for 7 s, in state T; killing it" in output
    assert "(start 1): silent for 7 s, in state T, and killed" in output
    assert (tmp_path / "before").read_text() == "silent for 7 s, in state T, and killed"


def test_an_am_is_killed_before_its_children_are_orphans() -> None:
    assert [pulse.bound(orphan) for orphan in (5, 33, 120, 3600)] == [10, 16.5, 60, 60]


def test_an_am_that_was_never_heard_of_has_time_for_its_start(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, NOTE + "time.sleep(3)", silent_s=1)
    supervisor.communicate(timeout=30)
    assert (supervisor.returncode, starts(tmp_path)) == (0, ["1"])


def test_the_am_dies_with_its_supervisor(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, NOTE + "time.sleep(600)")
    until(lambda: starts(tmp_path))
    am = am_pid(supervisor)
    supervisor.kill()
    supervisor.communicate(timeout=30)
    until(lambda: gone(am))


def test_it_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, NOTE + "time.sleep(600)", parent="os.getppid() + 1")
    supervisor.communicate(timeout=30)
    assert supervisor.returncode == EXIT_TERMINATED


def test_orphans_of_a_dead_am_are_reaped(tmp_path: Path) -> None:
    am = NOTE + textwrap.dedent("""
        import subprocess
        if os.environ['AFO_AM_INCARNATION'] == '1':
            sleep = [sys.executable, '-c', 'import time; time.sleep(600)']
            orphan = subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.DEVNULL)
            open('orphan.partial', 'w').write(str(orphan.pid))
            os.rename('orphan.partial', 'orphan')
            os._exit(1)
        time.sleep(600)
    """)
    supervisor = supervise(tmp_path, am)
    until(lambda: len(starts(tmp_path)) == 2)
    orphan = int((tmp_path / "orphan").read_text())
    assert psutil.Process(orphan).ppid() == supervisor.pid
    os.kill(orphan, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(orphan))
    supervisor.terminate()
    supervisor.communicate(timeout=30)


def test_the_last_words_are_kept_and_passed_on(tmp_path: Path) -> None:
    am = NOTE + "print('one ä\\ntwo', file=sys.stderr)\nsys.exit(3)"
    output, _ = supervise(tmp_path, am).communicate(timeout=30)
    assert "last words: ['one ä', 'two']" in output


def test_a_log_that_is_full_gets_the_last_lines_alone(tmp_path: Path) -> None:
    am = NOTE + "print('begin', *(['x' * 99] * 1000), 'the reason', sep='\\n', file=sys.stderr)\nsys.exit(6)"
    supervise(tmp_path, am, most=2, redirect="2>stderr", room=2000).communicate(timeout=30)
    log = (tmp_path / "stderr").read_text()
    assert log.startswith("begin\n")
    assert log.count("[afo: the log is full") == 2, "of each start, where it is left out"
    assert (log.count("bytes are left out"), log.count("the reason\n")) == (2, 2)
    assert len(log) < 2000 + 2 * (10 * 100 + 200)


def test_strangers_at_its_port_write_nothing_into_its_log(tmp_path: Path) -> None:
    am = """
        import socket
        from afo.rpc.server import RpcServer
        server = RpcServer({}, "secret", "127.0.0.1")
        server.start()
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", server.port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                stranger.recv(100)
        server.stop()
    """
    output, _ = supervise(tmp_path, am, redirect="2>stderr").communicate(timeout=60)
    assert "last words: []" in output
    assert (tmp_path / "stderr").read_bytes() == b""


@pytest.mark.parametrize("redirect", [">/dev/full", "2>/dev/full"])
def test_a_full_disk_loses_words_and_no_start(tmp_path: Path, redirect: str) -> None:
    am = NOTE + "print('one', file=sys.stderr, flush=True)\nprint('two', file=sys.stderr, flush=True)\nsys.exit(6)"
    output, _ = supervise(tmp_path, am, redirect=redirect).communicate(timeout=30)
    assert starts(tmp_path) == ["1", "2", "3"]
    assert redirect == ">/dev/full" or "last words: ['one', 'two']" in output


def test_bound_counts_starts_in_a_window_and_pauses_grow() -> None:
    bound = RestartBound(most=4, window_s=100, first_pause_s=1, longest_pause_s=3)
    assert [bound.next_pause(0), bound.next_pause(1), bound.next_pause(2), bound.next_pause(3)] == [0, 1, 2, 3]
    assert bound.next_pause(50) is None
    assert bound.next_pause(100.5) == 3
    assert bound.next_pause(100.6) is None

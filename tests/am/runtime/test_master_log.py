"""The copy of what Application Masters say: asked for by one that ends, and of one that dies."""

import os
import select
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from afo import storage
from afo.job.paths import JobPaths
from afo_am.runtime import master_log
from afo_am.runtime.master_log import DESCRIPTOR, MasterLog, Relay, ask_for_copy

JOB = "application_1700000000000_0001"


def supervised(folder: Path, am: str) -> Path:
    """Where the log of an AM that runs the text `am` was copied to, when its supervisor has ended."""
    program = f"""
        import sys
        from pathlib import Path
        from afo.job.paths import JobPaths
        from afo_am.runtime.master_log import MasterLog
        from afo_am.supervisor.supervision import RestartBound, Supervisor
        log = MasterLog(Path("am-log"), JobPaths({str(folder / "jobs")!r}, {JOB!r}), 2)
        am = [sys.executable, "-c", {textwrap.dedent(am)!r}]
        Supervisor(am, RestartBound(2, 600, 0.01, 0.02), log=log).run()
        log.close()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=folder, timeout=60, check=False)
    return folder / "jobs" / JOB / "logs" / "am" / "2" / "stderr"


def test_an_am_that_asks_is_answered_when_all_it_said_is_copied(tmp_path: Path) -> None:
    am = f"""
        import sys
        from pathlib import Path
        from afo_am.runtime.master_log import ask_for_copy
        copy = Path({str(tmp_path)!r}, "jobs/{JOB}/logs/am/2/stderr")
        for number in range(3):
            sys.stderr.write(f"line {{number}}\\n" * 20_000)
            sys.stderr.flush()
            ask_for_copy()
            Path({str(tmp_path)!r}, f"seen-{{number}}").write_text(str(copy.read_text().count("line")))
    """
    copy = supervised(tmp_path, am)
    assert [int((tmp_path / f"seen-{number}").read_text()) for number in range(3)] == [20_000, 40_000, 60_000]
    assert copy.read_text().count("line") == 60_000
    # job.json, which is to come, holds what is not for all to read.
    assert stat.S_IMODE((tmp_path / "jobs" / JOB).stat().st_mode) == 0o700


def test_the_last_words_of_an_am_that_is_killed_are_in_the_copy(tmp_path: Path) -> None:
    am = """
        import os, signal, sys
        sys.stderr.write(f"start {os.environ['AFO_AM_INCARNATION']} says farewell")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    lines = supervised(tmp_path, am).read_text()
    assert "start 1 says farewell" in lines
    assert "start 2 says farewell" in lines
    assert "the Application Master (start 1): ended by signal 9" in lines
    assert lines.endswith("giving up with its last exit code -9\n")


def test_what_was_said_before_a_copy_was_asked_for_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the look that finds the question may have begun before the words came."""
    done: list[object] = []
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    look = select.select

    def early(sources: list[object], *rest: object) -> object:
        is_first = len(rest) == 2 and "copy" not in done
        return ([theirs], [], []) if is_first else look(sources, *rest)

    monkeypatch.setattr(master_log.select, "select", early)
    os.write(writing, b"farewell")
    ours.sendall(b"\n")
    relay = Relay(os.fdopen(reading, "rb", 0), theirs, done.append, lambda: done.append("copy"))
    relay.start()
    assert ours.recv(1) == b"\n"
    ours.close()
    os.close(writing)
    relay.join(10)
    assert done == [b"farewell", "copy"]


def test_storage_that_hangs_holds_neither_the_copy_nor_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(storage, "make_dirs", lambda *_, **__: release.wait(60))
    monkeypatch.setattr(master_log, "COPY_S", 0.05)
    log = MasterLog(tmp_path, JobPaths(str(tmp_path / "jobs"), JOB), 1)
    log.feed(b"x")
    log.copy()
    log.copy()
    log.close()
    assert [thread.name for thread in threading.enumerate()].count("log-upload") == 1
    release.set()
    for thread in threading.enumerate():
        if thread.name == "log-upload":
            thread.join(60)


def test_an_am_without_an_answer_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(master_log, "COPY_S", 0.02)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setenv(DESCRIPTOR, str(theirs.fileno()))
        ask_for_copy()
    assert "the log was not copied a last time: timed out" in caplog.text
    monkeypatch.setenv(DESCRIPTOR, str(os.open(os.devnull, os.O_RDONLY)))
    ask_for_copy()
    os.close(int(os.environ[DESCRIPTOR]))
    monkeypatch.delenv(DESCRIPTOR)
    ask_for_copy()
    assert caplog.text.count("the log was not copied") == 2

"""Processes that are found again by a locked file."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo import locked_process

FOREVER = [sys.executable, "-c", "import signal\nsignal.pause()"]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Path]:
    """Of a process that the test starts."""
    path = tmp_path / "lock"
    yield path
    locked_process.send_signal(path, signal.SIGKILL)


def start(lock: Path) -> int:
    out = lock.parent / "out"
    return locked_process.start(FOREVER, lock, env=os.environ, stdout=out, stderr=out)


def test_one_that_has_just_begun_is_signalled(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had no time to note its process id, by which it is found."""
    monkeypatch.setattr(locked_process, "_NOTE_PID", 'sleep 1; echo $$ > "$0" && exec "$@"')
    pid = start(lock)
    assert locked_process.pid_of(lock) is None
    assert locked_process.alive(lock)
    locked_process.send_signal(lock, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not locked_process.alive(lock)


def test_one_that_is_over_is_left_alone_at_once(lock: Path) -> None:
    pid = start(lock)
    locked_process.send_signal(lock, signal.SIGKILL)
    os.waitpid(pid, 0)
    locked_process.send_signal(lock, signal.SIGKILL)
    lock.write_text("")
    locked_process.send_signal(lock, signal.SIGKILL)
    locked_process.send_signal(lock.with_name("no such file"), signal.SIGKILL)

"""Processes that are found again by a locked file."""

import os
import signal
import subprocess
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


SPAWN_SEEN = """
import os, pathlib, sys
from afo import locked_process
def seen(path, command, env, *, file_actions, setsid):
    print([action[1:] for action in file_actions if action[0] == os.POSIX_SPAWN_DUP2])
os.posix_spawn = seen
locked_process.start([], pathlib.Path(sys.argv[1]), env={}, stdout=pathlib.Path("o"), stderr=pathlib.Path("e"))
"""


def test_the_lock_reaches_the_process_where_its_descriptor_would_be_the_first_free_one(tmp_path: Path) -> None:
    """A new process has none but 0 to 2; before glibc 2.29, exec closes what was copied from 3 to 3."""
    command = [sys.executable, "-c", SPAWN_SEEN, str(tmp_path / "lock")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.endswith(", 3)]\n")
    assert said != "[(3, 3)]\n"

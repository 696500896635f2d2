"""Processes that are found again by a locked file."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.errors import StorageError
from afo.process import pidfile

FOREVER = [sys.executable, "-c", "import signal\nsignal.pause()"]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Path]:
    """Of a process that the test starts."""
    path = tmp_path / "lock"
    yield path
    pidfile.send_signal(path, signal.SIGKILL)


def start(lock: Path) -> int:
    out = lock.parent / "out"
    return pidfile.start(FOREVER, lock, env=os.environ, stdout=out, stderr=out)


def test_one_that_has_just_begun_is_signalled(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had no time to note its process id, by which it is found."""
    monkeypatch.setattr(pidfile, "_NOTE_PID", 'sleep 1; echo $$ > "$0" && exec "$@"')
    pid = start(lock)
    assert pidfile.pid_of(lock) is None
    assert pidfile.alive(lock)
    pidfile.send_signal(lock, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not pidfile.alive(lock)


def test_one_that_is_over_is_left_alone_at_once(lock: Path) -> None:
    pid = start(lock)
    pidfile.send_signal(lock, signal.SIGKILL)
    os.waitpid(pid, 0)
    pidfile.send_signal(lock, signal.SIGKILL)
    lock.write_text("")
    pidfile.send_signal(lock, signal.SIGKILL)
    pidfile.send_signal(lock.with_name("no such file"), signal.SIGKILL)


def test_a_process_that_does_not_hold_the_lock_is_not_signalled(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write the file can name any process of the user who ends the job."""
    pid = start(lock)
    stranger = subprocess.Popen(FOREVER)
    until_noted(lock)
    lock.write_text(f"{stranger.pid}\n")
    monkeypatch.setattr(pidfile, "_NOTED_S", 0.0)
    try:
        with pytest.raises(StorageError, match=f"names process {stranger.pid}, which is not the one"):
            pidfile.send_signal(lock, signal.SIGKILL)
        assert stranger.poll() is None
    finally:
        lock.write_text(f"{pid}\n")
        stranger.kill()
        stranger.wait()


def until_noted(lock: Path) -> None:
    """Waits for the process to note its id, at most a minute."""
    deadline = time.monotonic() + 60
    while pidfile.pid_of(lock) is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["directory", "a link to itself"])
def test_what_is_no_lock_is_an_error_that_names_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "no-lock"
    if kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(path)
    for question in (pidfile.alive, pidfile.pid_of):
        with pytest.raises(StorageError, match="no-lock"):
            question(path)


@pytest.mark.parametrize("text", ["", "12"])
def test_a_process_that_is_not_noted_yet(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    assert pidfile.pid_of(tmp_path / "lock") is None


@pytest.mark.parametrize("text", ["-1\n", "0\n", "\n", "1" * 5000 + "\n", "4294967297\n", "1\n2\n", "\xb2\n", "a\n"])
def test_what_is_no_process_id(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(StorageError, match="holds no process id"):
        pidfile.pid_of(tmp_path / "lock")


SPAWN_SEEN = """
import os, pathlib, sys
from afo.process import pidfile
def seen(path, command, env, *, file_actions, setsid):
    print([action[1:] for action in file_actions if action[0] == os.POSIX_SPAWN_DUP2])
os.posix_spawn = seen
pidfile.start([], pathlib.Path(sys.argv[1]), env={}, stdout=pathlib.Path("o"), stderr=pathlib.Path("e"))
"""


def test_the_lock_reaches_the_process_where_its_descriptor_would_be_the_first_free_one(tmp_path: Path) -> None:
    """A new process has none but 0 to 2; before glibc 2.29, exec closes what was copied from 3 to 3."""
    command = [sys.executable, "-c", SPAWN_SEEN, str(tmp_path / "lock")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.endswith(", 3)]\n")
    assert said != "[(3, 3)]\n"


def test_it_is_seen_on_a_file_system_that_turned_read_only(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file, tried = os.open, list[int]()

    def open_read_only(path: Path, flags: int, *mode: int) -> int:
        if path == lock and flags & os.O_ACCMODE != os.O_RDONLY:
            tried.append(flags)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return open_file(path, flags, *mode)

    pid = start(lock)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_read_only)
        assert pidfile.alive(lock)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert not pidfile.alive(lock)
    assert len(tried) == 2

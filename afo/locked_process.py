"""Processes that outlive who started them, and are found again by a file.

The process inherits a locked descriptor of its lock file and holds it until its end, so whether it lives is a question
to the kernel, never to a process id. The file's content is that id: who reads it, and finds the lock held, knows it to
be right. Linux; the lock file lies on a local disk.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

#: The descriptor under which the process inherits its lock.
_LOCK_FD = 3
#: It is the first thing that a process does; seconds.
_NOTED_S = 30.0
_NOTE_PID = 'echo $$ > "$0" && exec "$@"'


def start(command: list[str], lock: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path) -> int:
    """Run `command` in a session of its own and return its process id; it reads nothing and appends its output.

    The caller is its parent and should reap it. Raises `OSError`.
    """
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = _opened(lock)
    try:
        # The lock belongs to the open file, which the process inherits: held from now on, without a gap.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", _NOTE_PID, str(lock), *command],
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(stdout), appending, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, str(stderr), appending, 0o600),
                (os.POSIX_SPAWN_DUP2, descriptor, _LOCK_FD),
            ],
            setsid=True,
        )
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    """The lock file, above `_LOCK_FD`: glibc before 2.29 lets exec close a descriptor that is copied onto itself."""
    lowest = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return fcntl.fcntl(lowest, fcntl.F_DUPFD_CLOEXEC, _LOCK_FD + 1)
    finally:
        os.close(lowest)


def alive(lock: Path) -> bool:
    """Does the process of this lock file live? False where there is no such file."""
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def pid_of(lock: Path) -> int | None:
    """The process id that the file holds, None before the process wrote it. Right only while `alive`."""
    try:
        text = lock.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


def send_signal(lock: Path, number: signal.Signals) -> None:
    """Signal the process of this lock file, and never another one; nothing happens when it is over.

    One that has just begun has not noted its process id yet: that is waited for.
    """
    deadline = time.monotonic() + _NOTED_S
    while (pid := pid_of(lock)) is None and alive(lock) and time.monotonic() < deadline:
        time.sleep(0.01)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            # The descriptor is pinned to one process: if ours lives now, it is that one.
            if alive(lock):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)

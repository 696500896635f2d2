"""Processes that outlive who started them, and are found again by a file.

The process inherits a locked descriptor of its lock file and holds it until its end, so whether it lives is a question
to the kernel, never to a process id. The file's content is that id; whoever can write the file can name another, so the
process is signalled only if it has the lock file open as one that was started here has. Linux; the lock file lies on a
local disk.
"""

import errno
import fcntl
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from afo.errors import PermissionDenied, StorageError
from afo.storage.regular_file import open_regular

#: The descriptor under which the process inherits its lock.
_LOCK_FD = 3
#: It is the first thing that a process does; seconds.
_NOTED_S = 30.0
_MOST_OF_PID = 20
_PID = re.compile(rb"[1-9]\d{0,8}\n")
_NOTE_PID = 'echo $$ > "$0" && exec "$@"'


def start(command: list[str], lock: Path, *, env: Mapping[str, str], stdout: Path, stderr: Path) -> int:
    """Run `command` in a session of its own and return its process id; it reads nothing and appends its output.

    The caller is its parent and should reap it. Raises `OSError`.
    """
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = _open_lock(lock)
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


def _open_lock(lock: Path) -> int:
    """The lock file, above `_LOCK_FD`: glibc before 2.29 lets exec close a descriptor that is copied onto itself."""
    lowest = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return fcntl.fcntl(lowest, fcntl.F_DUPFD_CLOEXEC, _LOCK_FD + 1)
    finally:
        os.close(lowest)


def alive(lock: Path) -> bool:
    """Does the process of this lock file live? False where there is no such file.

    Raises `StorageError` for what is no lock file.
    """
    try:
        descriptor = _open_to_test(lock)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"cannot see whether {lock} is held: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open_to_test(lock: Path) -> int:
    # What is no lock is not waited for, nor is a link followed to what opening may change.
    safely = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(lock, os.O_RDWR | safely)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(lock, os.O_RDONLY | safely)  # enough for a lock on a local disk


def pid_of(lock: Path) -> int | None:
    """The process id that the file holds, None before the process wrote it. Right only while `alive`.

    Raises `StorageError` for what is no lock file.
    """
    try:
        with open_regular(lock) as file:
            text = file.read(_MOST_OF_PID + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {lock}: {error.strerror}") from error
    if len(text) <= _MOST_OF_PID and not text.endswith(b"\n"):
        return None
    if not _PID.fullmatch(text):
        raise StorageError(f"{lock} holds no process id")
    return int(text)


def send_signal(lock: Path, number: signal.Signals) -> None:
    """Signal the process of this lock file, and never another one; nothing happens when it is over.

    One that has just begun has not noted its process id yet: that is waited for. Raises `PermissionDenied`, and
    `StorageError` where the lock is held and not by the process that the file names, which anybody may have written.
    """
    deadline = time.monotonic() + _NOTED_S
    while alive(lock):
        pid = pid_of(lock)
        if pid is not None and _send_signal(pid, lock, number):
            return
        if time.monotonic() > deadline:
            words = "names none" if pid is None else f"names process {pid}, which is not the one"
            raise StorageError(f"{lock} is held by a process and {words}; nothing was signalled")
        time.sleep(0.01)


def _send_signal(pid: int, lock: Path, number: signal.Signals) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False  # there is none, or it is a thread
    try:
        # The descriptor is pinned to one process: if it has the lock now, it is that one.
        if not _has(pid, lock):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise PermissionDenied(f"process {pid}, which holds {lock}, is another user's") from error
    finally:
        os.close(descriptor)
    return True


def _has(pid: int, lock: Path) -> bool:
    """Whether a process has the lock file where one that `start` made has it until its end."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/fd/{_LOCK_FD}"), os.lstat(lock))
    except OSError:
        return False

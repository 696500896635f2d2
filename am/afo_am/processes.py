"""Linux process calls that the supervisor and the local containers share."""

import ctypes
import os
import signal

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """The kernel kills this process when the thread that started it ends. For `preexec_fn`: no Python locks inside."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent dies become children of this process, so that it can end and reap them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """End every process below this one and reap it. Complete for a process that called `adopt_orphans`."""
    while children := psutil.Process().children(recursive=True):
        for process in children:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        reap_all(block=True)


def reap_all(*, block: bool) -> dict[int, int]:
    """Exit codes (or -signal) by process id of children that ended; with `block`, waits until none is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")

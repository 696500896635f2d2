"""One container of the `local` runtime: `python -m afo_am.runtime.local_container DIRECTORY GRACE_S COMMAND…`.

A process between the AM and the Child, so that a container outlives the AM that asked for it and its exit code is
written down whoever is there to read it. It holds `lock` from before its first instruction to its last (the file
descriptor is inherited from the AM), which makes "does it run?" a question to the kernel and not to a process id.

    SIGTERM   passed on to the command; what is left after GRACE_S seconds is killed
    the end   every process that the command left behind is killed, then `exit.json` is written
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from afo_am.processes import adopt_orphans, die_with_parent, kill_descendants

LOCK = "lock"
PROCESS = "process.json"
CANCEL = "cancel"
EXIT = "exit.json"
WORK = "work"


class Process(msgspec.Struct, frozen=True):
    """Content of `process.json`."""

    pid: int


class Exit(msgspec.Struct, frozen=True):
    """Content of `exit.json`. `code` is None when the command was never started."""

    code: int | None
    diagnostics: str = ""


def write(path: Path, content: msgspec.Struct) -> None:
    """Write JSON that another process reads: complete or not there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(msgspec.json.encode(content))
    partial.rename(path)


def main(arguments: list[str]) -> int:
    """Run the command of one container to its end."""
    directory, grace_s, command = Path(arguments[0]), float(arguments[1]), arguments[2:]
    adopt_orphans()
    write(directory / PROCESS, Process(os.getpid()))
    # `kill` writes CANCEL before it looks for PROCESS: one of the two sees the other.
    if (directory / CANCEL).exists():
        write(directory / EXIT, Exit(None, "cancelled before it started"))
        return 0
    try:
        exit_code = _run(directory / WORK, command, grace_s)
    except OSError as error:
        write(directory / EXIT, Exit(None, f"cannot start {command[0]}: {error}"))
        return 0
    write(directory / EXIT, Exit(exit_code, _words(exit_code)))
    return 0


def _run(work: Path, command: list[str], grace_s: float) -> int:
    # A signal that comes before the handlers are set ends this process, and the command with it.
    child = subprocess.Popen(
        command,
        cwd=work,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # one thread
    )

    def kill(_number: int, _frame: object) -> None:
        child.kill()

    def terminate(_number: int, _frame: object) -> None:
        child.terminate()
        signal.setitimer(signal.ITIMER_REAL, grace_s)

    signal.signal(signal.SIGALRM, kill)
    signal.signal(signal.SIGTERM, terminate)
    code = child.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    kill_descendants()
    return code


def _words(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

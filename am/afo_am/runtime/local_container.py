"""One container of the `local` runtime: `python -m afo_am.runtime.local_container DIRECTORY GRACE_S COMMAND…`.

A process between the AM and the Child, so that a container outlives the AM that asked for it and its exit code is
written down whoever is there to read it. Started by `afo.process.pidfile`.

    SIGTERM   passed on to the command; what is left after GRACE_S seconds is killed
    the end   every process that the command left behind is killed, then `exit.json` is written
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from afo.formats.json_file import write_private
from afo.process.lifetime import adopt_orphans, die_with_parent
from afo.process.orphans import kill_orphans

LOCK = "lock"
CANCEL = "cancel"
EXIT = "exit.json"
WORK = "work"


class Exit(msgspec.Struct, frozen=True):
    """Content of `exit.json`. `code` is None when the command was never started."""

    code: int | None
    diagnostics: str = ""


def main(arguments: list[str]) -> int:
    """Run the command of one container to its end."""
    directory, grace_s, command = Path(arguments[0]), float(arguments[1]), arguments[2:]
    adopt_orphans()
    # Our id is in LOCK by now, and `kill` writes CANCEL before it looks for the id: one of the two sees the other.
    if (directory / CANCEL).exists():
        end = Exit(None, "cancelled before it started")
    else:
        end = _run(directory / WORK, command, grace_s)
    write_private(directory / EXIT, end)
    return 0


def _run(work: Path, command: list[str], grace_s: float) -> Exit:
    try:
        # A signal that comes before the handlers are set ends this process, and the command with it.
        child = subprocess.Popen(
            command,
            cwd=work,
            stdin=subprocess.DEVNULL,
            preexec_fn=partial(die_with_parent, os.getpid()),  # this process has one thread
        )
    except OSError as error:
        return Exit(None, f"cannot start {command[0]}: {error}")

    def kill(_number: int, _frame: object) -> None:
        child.kill()

    def terminate(_number: int, _frame: object) -> None:
        child.terminate()
        signal.setitimer(signal.ITIMER_REAL, grace_s)

    signal.signal(signal.SIGALRM, kill)
    signal.signal(signal.SIGTERM, terminate)
    code = child.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    kill_orphans()
    return Exit(code, f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a whole job takes: measured.py LIMIT_S COMMAND… runs it, and prints one JSON object when all has ended.

`seconds` until the command ended; `cpu_s`, processor time of it and of all processes that it led to, also of those that
left it (they become children of this process); `peak_bytes`, the largest sum of their memory, pages that several share
counted once (PSS), looked at every half a second; `code` of the command. All is killed after LIMIT_S.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import psutil

from afo.process.lifetime import adopt_orphans

EVERY_S = 0.5
REAP_S = 0.02


@dataclass(frozen=True)
class Measured:
    """Of a command and all that came of it."""

    code: int
    seconds: float
    cpu_s: float
    peak_bytes: int


def measure(command: list[str], limit_s: float) -> Measured:
    """Run it. Every child of this process is taken for one of the command's. Raises OSError where it does not start."""
    adopt_orphans()
    began, looked, peak, killed = time.monotonic(), -EVERY_S, 0, False
    leader = subprocess.Popen(command, stdout=sys.stderr)
    code, seconds = 0, 0.0
    while (ended := _ended()) is not None:
        now = time.monotonic() - began
        if leader.pid in ended:
            code = leader.returncode = os.waitstatus_to_exitcode(ended[leader.pid])
            seconds = now
        if now - looked >= EVERY_S:
            peak, looked = max(peak, _memory()), now
        if now > limit_s and not killed:
            killed = True
            _kill()
        time.sleep(REAP_S)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(code, seconds, used.ru_utime + used.ru_stime, peak)


def _ended() -> dict[int, int] | None:
    """Status of each child that has ended since the last time; None once there are no children."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if not pid:
            return ended
        ended[pid] = status


def _memory() -> int:
    """PSS of all descendants, bytes."""
    return sum(_pss(process.pid) for process in psutil.Process().children(recursive=True))


def _pss(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:")), 0)
    except OSError:  # it has ended
        return 0


def _kill() -> None:
    for process in psutil.Process().children(recursive=True):
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


if __name__ == "__main__":
    result = measure(sys.argv[2:], float(sys.argv[1]))
    print(json.dumps(asdict(result)))
    sys.exit(result.code)

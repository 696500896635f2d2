"""Processor time by kind of thread, from Linux's `/proc/PID/task`: an outline of what costs, without a profiler.

TensorFlow and gRPC name most of their threads. One without a name has that of the program, `python`: those that wait
for the messages of TensorFlow's servers and clients, mostly. Python itself runs in the main thread.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
#: By the names that TensorFlow 2.21 and its gRPC give their threads: the first that fits.
KINDS = {
    "TensorFlow's pools": r"tf_",
    "gRPC": r"grpc|event_engine",
    "threads without a name": r"python",
}
REST = "other threads"


def thread_times(roles: Mapping[str, Sequence[psutil.Process]]) -> Counter[str]:
    """Seconds so far by role of the process and kind of thread; those of threads that have ended are left out."""
    found: Counter[str] = Counter()
    for role, processes in roles.items():
        for process in processes:
            for kind, seconds in _threads(process.pid):
                found[f"{role}: {kind}"] += seconds
    return found


def kind_of(name: str) -> str:
    """The kind of a thread that is not the main one, by its name."""
    return next((kind for kind, pattern in KINDS.items() if re.match(pattern, name)), REST)


def _threads(pid: int) -> Iterator[tuple[str, float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            head, _, rest = (task / "stat").read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        user, system = rest.split()[11:13]
        kind = "main thread" if task.name == str(pid) else kind_of(head.partition("(")[2])
        yield kind, (int(user) + int(system)) * _TICK_S

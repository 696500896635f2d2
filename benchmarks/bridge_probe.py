"""Runs as the driver script of `bench_bridge.py`'s application, in the place of afo's Application Master, and makes its
calls: `python bridge_probe.py DIRECTORY CONTAINERS HURT`. What it measured goes to `DIRECTORY/probe.json`.

A container notes the time, its process id and its own id in `DIRECTORY/<container>.up` and then sleeps.
"""

import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import psutil

from afo.rpc.messages import TaskId
from afo_am.runtime import yarn
from afo_am.runtime.base import ContainerInfo

#: As the AM's driver looks at its containers.
POLL_S = 1.0
_DEADLINE_S = 300.0
#: How long an end may stay unseen before it counts as lost: six of skein's heartbeats.
_PATIENCE_S = 30.0

Numbers = dict[str, Any]


class Measured(yarn.BoundedApplicationClient):
    """Notes how long each call took and how much came back."""

    calls: ClassVar[list[tuple[str, float, int]]] = []

    def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        begun = time.perf_counter()
        answer = super()._call(method, request, timeout=timeout)
        self.calls.append((method, time.perf_counter() - begun, answer.ByteSize()))
        return answer


def calls_of(method: str, since: int) -> Numbers:
    """Milliseconds and bytes of the calls of a method from number `since` on."""
    found = [(seconds, size) for name, seconds, size in Measured.calls[since:] if name == method]
    times = sorted(1000 * seconds for seconds, _ in found)
    return {
        "calls": len(found),
        "median_ms": statistics.median(times),
        "p99_ms": times[int(len(times) * 0.99)],
        "most_ms": times[-1],
        "bytes": found[-1][1],
    }


class Probe:
    """One application: asks for its containers, hurts some, ends."""

    def __init__(self, directory: Path, containers: int, hurt: int) -> None:
        self.directory, self.containers, self.hurt = directory, containers, hurt
        self.runtime = yarn.YarnRuntime()
        self.seen: dict[str, ContainerInfo] = {}

    def run(self) -> None:
        """All of it, then the end of the application. Waits at first, so that the JVM can be looked at."""
        self.look()
        (self.directory / "ready").touch()
        self.until((self.directory / "go").exists)
        numbers = self.start()
        if self.hurt:
            fresh = self.batches()
            numbers["crashed"] = self.crash(next(fresh))
            numbers["killed"] = self.kill(next(fresh))
            numbers["mixed"] = self.crash(next(fresh), next(fresh))
        time.sleep(5)
        numbers["finish"] = time.time()
        (self.directory / "probe.json").write_text(json.dumps(numbers))
        self.runtime.finish("SUCCEEDED", "measured")

    def start(self) -> Numbers:
        """Ask for all and look every second, until skein says that all run and until all do."""
        begun = time.time()
        for index in range(self.containers):
            self.runtime.request(TaskId(role="worker", index=index, attempt=0), {})
        numbers = {"begun": begun, "requested_s": time.time() - begun, "request": calls_of("addContainer", 0)}
        first = len(Measured.calls)
        numbers["reported_s"] = self.until(lambda: self.count("running") >= self.containers) - begun
        self.until(lambda: len(self.up()) >= self.containers)
        numbers["up_s"] = max(at for at, _ in self.up().values()) - begun
        settled = len(Measured.calls)
        for _ in range(10):
            self.look()
        return {**numbers, "list_busy": calls_of("getContainers", first), "list": calls_of("getContainers", settled)}

    def crash(self, victims: list[str], killed: Iterable[str] = ()) -> Numbers:
        """Processes die; at the same time the AM ends others. When does skein say so, and what?"""
        processes = self.up()
        begun = time.time()
        for container in victims:
            os.kill(processes[container][1], signal.SIGKILL)
        self.kill_all(killed)
        times: dict[str, float] = {}
        while len(times) < len(victims) and time.time() < begun + _PATIENCE_S:
            self.look()
            now = time.time() - begun
            times.update({each: now for each in victims if each not in times and self.seen[each].state == "ended"})
            time.sleep(POLL_S)
        words = sorted({self.seen[each].diagnostics for each in times})
        return {"of": len(victims), "seen": len(times), "first_s": min(times.values(), default=None),
                "last_s": max(times.values(), default=None), "words": words,
                "exit_codes": sum(self.seen[each].exit_code is not None for each in times)}  # fmt: skip

    def kill(self, victims: list[str]) -> Numbers:
        """The AM ends containers: how long until the calls are made, and until the processes are gone."""
        processes = [self.up()[each][1] for each in victims]
        begun, before = time.time(), len(Measured.calls)
        self.kill_all(victims)
        asked = time.time() - begun
        self.until(lambda: not any(psutil.pid_exists(pid) for pid in processes), 0.1)
        return {"of": len(victims), "asked_s": asked, "gone_s": time.time() - begun,
                "call": calls_of("killContainer", before)}  # fmt: skip

    def kill_all(self, containers: Iterable[str]) -> None:
        """One call for each, as the AM does."""
        for container in containers:
            self.runtime.kill(self.seen[container].handle)

    def batches(self) -> Any:
        """Lists of containers that nothing has happened to, `hurt` at a time."""
        names = sorted(self.up())
        return iter([names[n * self.hurt : (n + 1) * self.hurt] for n in range(4)])

    def look(self) -> None:
        """What the runtime lists now."""
        self.seen = {info.container or info.handle: info for info in self.runtime.list_containers()}

    def count(self, state: str) -> int:
        """Containers in a state, by a fresh look."""
        self.look()
        return sum(info.state == state for info in self.seen.values())

    def up(self) -> dict[str, tuple[float, int]]:
        """When the process of each container began, and its id."""
        noted = (path.read_text().split() for path in self.directory.glob("*.up"))
        return {words[2]: (float(words[0]), int(words[1])) for words in noted if len(words) == 3}

    def until(self, condition: Callable[[], bool], every_s: float = POLL_S) -> float:
        """The time at which a condition was first found true."""
        deadline = time.time() + _DEADLINE_S
        while not condition():
            if time.time() > deadline:
                raise SystemExit(f"not within {_DEADLINE_S:g} s; {len(self.up())} of {self.containers} containers run")
            time.sleep(every_s)
        return time.time()


if __name__ == "__main__":
    yarn.BoundedApplicationClient = Measured  # type: ignore[misc]
    Probe(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])).run()

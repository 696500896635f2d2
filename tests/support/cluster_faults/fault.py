"""A fault, and the job that it happens to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import psutil

from afo.errors import NotFound
from afo.events import types as ev
from afo_client.hadoop import Cluster
from live_job import LiveJob

_Found = TypeVar("_Found")


class Late(Exception):
    """The job had done its work before the harm took effect, so it shows nothing: another one has to."""


@contextmanager
def standing_still(process: psutil.Process) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end, if it is still there."""
    process.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@dataclass
class Scene:
    """A job on a cluster. `undo` is run when the job is over, however that was."""

    job: LiveJob
    cluster: Cluster
    undo: ExitStack
    #: Wall clock of the harm.
    at: float = 0.0

    def strikes_now(self) -> None:
        """The harm is done with the next call."""
        self.at = time.time()

    def find(self, look: Callable[[], _Found], what: str) -> _Found:
        """What `look` returns once there is such a process."""
        found: list[_Found] = []

        def is_there() -> bool:
            with suppress(NotFound, IndexError, psutil.NoSuchProcess):  # between two processes
                found.append(look())
            return bool(found)

        self.job.wait(is_there, what, 60)
        return found[-1]

    def worker(self) -> int:
        """Worker 1, or the chief where that has done all its work."""
        done = [event.task for event in self.job.events(ev.TaskEnded) if event.cause == "succeeded"]
        return 0 if any((task.role, task.index) == ("worker", 1) for task in done) else 1

    def node_of_worker(self, index: int) -> str:
        """The NodeManager that runs a worker's container; waits for a worker that has not registered yet."""

        def last_host() -> str:
            found = [event for event in self.job.events(ev.TaskRegistered) if event.task.role == "worker"]
            return [event.host for event in found if event.task.index == index][-1]

        host = self.find(last_host, f"worker {index} has registered")
        names = [name for name in self.cluster.running() if name.startswith("nodemanager-")]
        return next(name for name in names if self.cluster.daemon(name).addresses[0][0] == host)

    def wait_for_cause(self, *causes: str) -> None:
        """Until a task or process ended so after the harm."""

        def seen() -> bool:
            after = [record.event for record in self.job.records() if record.time >= self.at]
            ends = [event.cause for event in after if isinstance(event, ev.TaskEnded | ev.ProcessEnded)]
            found = not set(ends).isdisjoint(causes)
            if not found and any(isinstance(event, ev.JobEnding) and event.state == "SUCCEEDED" for event in after):
                raise Late(f"{self.job.id} had done its work before an end by {' or '.join(causes)}")
            return found

        self.job.wait(seen, f"an end by {' or '.join(causes)}", 90)


class Fault:
    """Something that happens, and what may follow from it."""

    #: Causes of ends that it may bring about, and how many tasks or processes may start again at most.
    causes: frozenset[str] = frozenset()
    restarts = 0
    #: Further starts of the AM, and further generations, at most.
    masters = 0
    generations = 0

    @property
    def name(self) -> str:
        """For reports; differs from every other's."""
        raise NotImplementedError

    def missing(self) -> str:
        """What this machine lacks for it, or ''."""
        return ""

    def prepare(self, cluster: Cluster, undo: ExitStack) -> None:
        """Called before the job is submitted. `undo` is run when it is over, however that was."""

    def arm(self, scene: Scene) -> None:
        """Called shortly before, and again when it has waited for long; what takes time is done here."""

    def strike(self, scene: Scene) -> None:
        """Does it, and returns when what it took away is there again; what follows is up to the job."""
        raise NotImplementedError

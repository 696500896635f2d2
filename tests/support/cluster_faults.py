"""Faults around a job of conf/jobs/adult-yarn.yaml: daemons of Hadoop, a node, memory, processes that stand still.

Each one happens to a job that trains, and returns once what it did is done; the job goes on meanwhile.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from afo import events as ev
from afo.errors import NotFound
from afo_client.hadoop import Cluster
from live_job import AFO, LiveJob

#: Grows by 64 MiB at a time, so that YARN's monitor sees it before the machine feels it.
_GREEDY = "import time\nkept = []\nwhile len(kept) < 64:\n    kept.append(b'x' * (64 << 20))\n    time.sleep(0.1)\n"


@dataclass(frozen=True)
class Fault:
    """What is done, and what may follow from it."""

    do: Callable[[LiveJob, Cluster], None]
    #: Causes of ends that it may bring about, and how many tasks may start again at most.
    causes: frozenset[str] = frozenset()
    restarts: int = 0
    #: Incarnations of the AM in the end, and generations at most.
    masters: int = 1
    generations: int = 1


def _restart(daemon: str, away_s: float) -> Callable[[LiveJob, Cluster], None]:
    def do(job: LiveJob, cluster: Cluster) -> None:
        cluster.kill_daemon(daemon)
        time.sleep(away_s)
        cluster.start_daemon(daemon)

    return do


def _node_of(job: LiveJob, role: str, index: int, cluster: Cluster) -> str:
    """The daemon that runs the task's container."""
    host = [e for e in job.events(ev.TaskRegistered) if (e.task.role, e.task.index) == (role, index)][-1].host
    names = [name for name in cluster.running() if name.startswith("nodemanager-")]
    return next(name for name in names if cluster.daemon(name).addresses[0][0] == host)


def _lose_node(job: LiveJob, cluster: Cluster) -> None:
    """The NodeManager of a worker is killed, and stays away until its node has been called lost."""
    name = _node_of(job, "worker", 1, cluster)
    before = len(job.events(ev.TaskEnded)) + len(job.events(ev.AmStarted))
    cluster.kill_daemon(name)
    try:
        job.wait(lambda: len(job.events(ev.TaskEnded)) + len(job.events(ev.AmStarted)) > before, "the loss is seen")
        job.wait(lambda: job.state() == "TRAINING", "it trains again")
    finally:
        cluster.start_daemon(name)


def _node_returns(job: LiveJob, cluster: Cluster) -> None:
    name = _node_of(job, "worker", 1, cluster)
    cluster.kill_daemon(name)
    cluster.start_daemon(name)


def _kill_am_container(job: LiveJob, cluster: Cluster) -> None:
    """The container's Java process, which is skein's part of the AM."""
    starts = len(job.events(ev.AmStarted))
    for process in job.processes():
        with suppress(psutil.NoSuchProcess):
            if "com.anaconda.skein.ApplicationMaster" in process.cmdline():
                job.kill(process)
    job.wait(lambda: len(job.events(ev.AmStarted)) > starts, "another attempt of the application")


def _pause(find: Callable[[LiveJob], psutil.Process], seconds: float) -> Callable[[LiveJob, Cluster], None]:
    def do(job: LiveJob, cluster: Cluster) -> None:
        process = find(job)
        process.suspend()
        try:
            time.sleep(seconds)
        finally:
            process.resume()

    return do


def _kill(role: str) -> Callable[[LiveJob, Cluster], None]:
    def do(job: LiveJob, cluster: Cluster) -> None:
        found: list[psutil.Process] = []

        def runs() -> bool:
            with suppress(NotFound, psutil.NoSuchProcess):
                found.append(job.trainer(role, 0))
            return bool(found)

        job.wait(runs, f"{role}:0 runs")
        job.kill(found[-1])
        job.wait(lambda: bool(job.events(ev.ProcessEnded)), f"{role}:0 is missed")

    return do


def _use_too_much_memory(job: LiveJob, cluster: Cluster) -> None:
    """A program inside a worker's container, by `afo exec`."""
    command = [*AFO, "exec", job.id, "worker:1", "--", sys.executable, "-c", _GREEDY]
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    job.wait(lambda: bool(job.events(ev.TaskEnded)), "YARN kills the container")


_LOST = frozenset({"node_lost", "container_lost", "child_silent", "work_dir_lost", "container_stopped"})
_STORAGE = frozenset({"storage_unreachable", "parameter_server_lost"})
FAULTS: dict[str, Fault] = {
    "resourcemanager restarts": Fault(_restart("resourcemanager", 5)),
    # The AM ends with a journal that it cannot write, and the next start waits for the file system.
    "namenode restarts": Fault(_restart("namenode", 10), _STORAGE, restarts=6, masters=3, generations=2),
    "datanode restarts": Fault(_restart("datanode", 5), _STORAGE, restarts=6, masters=3, generations=2),
    "nodemanager returns": Fault(_node_returns, _LOST, restarts=15, masters=2, generations=4),
    "nodemanager is lost": Fault(_lose_node, _LOST, restarts=15, masters=2, generations=4),
    "AM container": Fault(_kill_am_container, _LOST, restarts=5, masters=2, generations=2),
    "AM stands still": Fault(_pause(LiveJob.master, 20)),
    "ps stands still": Fault(_pause(lambda job: job.trainer("ps", 0), 20)),
    "chief": Fault(_kill("worker"), frozenset({"killed_by_signal"}), restarts=1),
    "evaluator": Fault(_kill("evaluator"), frozenset({"killed_by_signal"}), restarts=1),
    "memory of a worker": Fault(_use_too_much_memory, frozenset({"memory_limit", "out_of_memory"}), restarts=1),
}

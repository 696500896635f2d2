"""Daemons of Hadoop are killed, and start again."""

import time

from afo.events import types as ev
from cluster_faults.fault import Fault, Scene

#: A container that was allotted on the node, and not begun there when it went, is one that nobody hears of again.
_LOST = frozenset(
    {
        "node_lost", "container_lost", "child_silent", "work_dir_lost", "container_stopped", "parameter_server_lost",
        "request_unanswered",
    }
)  # fmt: skip


class Restart(Fault):
    """ResourceManager, NameNode or DataNode: away for some seconds and its start."""

    def __init__(self, daemon: str, away_s: float) -> None:
        self._daemon = daemon
        self._away_s = away_s
        if daemon != "resourcemanager":
            # A journal that cannot be written ends the AM; its next start waits for the file system.
            self.masters, self.restarts, self.causes = 2, 2, frozenset({"storage_unreachable"})

    @property
    def name(self) -> str:
        return f"{self._daemon} restarts"

    def strike(self, scene: Scene) -> None:
        scene.strikes_now()
        scene.cluster.kill_daemon(self._daemon)
        time.sleep(self._away_s)
        scene.cluster.start_daemon(self._daemon)


class NodeReturns(Fault):
    """The NodeManager of a worker, which forgets its containers."""

    # It may have the AM's container, too.
    causes = _LOST | {"application_attempt_lost"}
    restarts = 15
    masters = 1
    generations = 3

    @property
    def name(self) -> str:
        return "nodemanager returns"

    def strike(self, scene: Scene) -> None:
        name = scene.node_of_worker(scene.worker())
        scene.strikes_now()
        scene.cluster.kill_daemon(name)
        scene.cluster.start_daemon(name)


class NodeIsLost(NodeReturns):
    """The same, and it stays away until its node has been called lost and the job goes on."""

    @property
    def name(self) -> str:
        return "nodemanager is lost"

    def strike(self, scene: Scene) -> None:
        name, job = scene.node_of_worker(scene.worker()), scene.job
        before = _ends_and_starts(scene)
        scene.strikes_now()
        scene.cluster.kill_daemon(name)
        try:
            job.wait(lambda: _ends_and_starts(scene) > before, "the loss is seen")
            job.wait(lambda: job.state() not in ("", "STARTING"), "it goes on")
        finally:
            scene.cluster.start_daemon(name)


def _ends_and_starts(scene: Scene) -> int:
    return len(scene.job.events(ev.TaskEnded)) + len(scene.job.events(ev.AmStarted))

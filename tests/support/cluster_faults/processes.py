"""Processes of a job are killed with SIGKILL, or stand still for a while."""

import time
from contextlib import suppress

import psutil

from afo.events import types as ev
from cluster_faults.fault import Fault, Scene, standing_still

_KILLED = frozenset({"killed_by_signal"})
#: What others see of a parameter server that is gone.
_PS_GONE = frozenset({"parameter_server_lost", "killed_by_signal"})
_PAUSE_S = 15.0


class Trainer(Fault):
    """The TensorFlow process of a task."""

    def __init__(self, role: str) -> None:
        self._role = role
        self.causes = _PS_GONE if role == "ps" else _KILLED
        self.restarts, self.generations = (5, 1) if role == "ps" else (1, 0)

    @property
    def name(self) -> str:
        return self._role

    def strike(self, scene: Scene) -> None:
        process = scene.find(lambda: _trainer(scene, self._role), f"the {self._role} runs")
        scene.strikes_now()
        scene.job.kill(process)


class Child(Fault):
    """The Child of a worker, and with it the worker."""

    causes = frozenset({"container_lost"})
    restarts = 1

    @property
    def name(self) -> str:
        return "Child of a worker"

    def strike(self, scene: Scene) -> None:
        process = scene.find(lambda: scene.job.child("worker", scene.worker()), "a worker's Child runs")
        scene.strikes_now()
        scene.job.kill(process)


class PsChild(Fault):
    """The Child of a parameter server, and with it the server."""

    causes = _PS_GONE | {"container_lost"}
    restarts = 5
    generations = 1

    @property
    def name(self) -> str:
        return "Child of a ps"

    def strike(self, scene: Scene) -> None:
        process = scene.find(lambda: scene.job.child("ps", 0), "a parameter server's Child runs")
        scene.strikes_now()
        scene.job.kill(process)


class Master(Fault):
    """The AM's Python process inside its container."""

    masters = 1

    @property
    def name(self) -> str:
        return "AM"

    def strike(self, scene: Scene) -> None:
        process = scene.find(scene.job.master, "the AM runs")
        scene.strikes_now()
        scene.job.kill(process)


class AmContainer(Fault):
    """The AM's container, by its Java process, which is skein's part of it."""

    causes = frozenset({"application_attempt_lost", "container_stopped", "child_silent", "parameter_server_lost"})
    restarts = 10
    masters = 1
    generations = 1

    @property
    def name(self) -> str:
        return "AM container"

    def strike(self, scene: Scene) -> None:
        starts = len(scene.job.events(ev.AmStarted))
        found = scene.find(lambda: [each for each in scene.job.processes() if _is_skein(each)], "its JVM runs")
        scene.strikes_now()
        for process in found:
            scene.job.kill(process)
        scene.job.wait(lambda: len(scene.job.events(ev.AmStarted)) > starts, "another attempt of the application")


class Pause(Fault):
    """A process stands still, as on a machine that swaps."""

    def __init__(self, who: str) -> None:
        self._who = who

    @property
    def name(self) -> str:
        return f"{self._who} stands still"

    def strike(self, scene: Scene) -> None:
        find = scene.job.master if self._who == "AM" else lambda: _trainer(scene, self._who)
        process = scene.find(find, f"the {self._who} runs")
        scene.strikes_now()
        with standing_still(process):
            time.sleep(_PAUSE_S)


def _trainer(scene: Scene, role: str) -> psutil.Process:
    if role == "chief":
        return scene.job.trainer("worker", 0)
    return scene.job.trainer(role, scene.worker() if role == "worker" else 0)


def _is_skein(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "com.anaconda.skein.ApplicationMaster" in process.cmdline()
    return False

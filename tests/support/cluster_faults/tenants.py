"""Memory that others use: a program in a worker's container, and another queue that wants its share back."""

import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import skein

from afo.errors import NotFound
from afo_client.hadoop import Cluster
from cluster_faults.fault import Fault, Scene, standing_still
from live_job import AFO

#: Waits for a file, then grows by 64 MiB at a time, so that YARN's monitor sees it before the machine feels it.
_GREEDY = """
import pathlib, sys, time
kept = []
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
while len(kept) < 64:
    kept.append(b"x" * (64 << 20))
    time.sleep(0.05)
"""


class Memory(Fault):
    """A program inside the chief's container, by `afo exec`."""

    causes = frozenset({"memory_limit", "out_of_memory"})
    restarts = 1

    @property
    def name(self) -> str:
        return "memory limit"

    def arm(self, scene: Scene) -> None:
        self._sign = scene.cluster.directory / f"{scene.job.id}.{time.time_ns()}.greedy"
        command = [*AFO, "exec", scene.job.id, "worker:0", "--", sys.executable, "-c", _GREEDY, str(self._sign)]
        scene.find(lambda: scene.job.child("worker", 0), "the chief runs")
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        scene.undo.callback(_end, program, self._sign)
        scene.find(lambda: _with_argument(scene, str(self._sign))[0], "the greedy program runs")

    def strike(self, scene: Scene) -> None:
        scene.strikes_now()
        self._sign.touch()
        scene.wait_for_cause(*self.causes)


class Preemption(Fault):
    """The queue `ads` asks for the half of the cluster that belongs to it, of which the job has a part."""

    causes = frozenset({"preempted", "parameter_server_lost"})
    restarts = 6
    generations = 1

    @property
    def name(self) -> str:
        return "preemption"

    def prepare(self, cluster: Cluster, undo: ExitStack) -> None:
        self._client = undo.enter_context(skein.Client(security=skein.Security.new_credentials()))
        self._submit(undo)

    def _submit(self, undo: ExitStack) -> None:
        waiting = skein.Service(instances=0, script="sleep 600", resources=skein.Resources(memory="2750 MiB", vcores=1))
        spec = skein.ApplicationSpec(
            name="other tenant", queue="ads", services={"greedy": waiting},
            master=skein.Master(script="sleep 900", resources=skein.Resources(memory="512 MiB", vcores=1)),
        )  # fmt: skip
        self._application = undo.enter_context(self._client.submit_and_connect(spec))
        undo.callback(self._client.kill_application, self._application.id)

    def arm(self, scene: Scene) -> None:
        try:
            self._application.get_containers()
        except skein.ConnectionError:  # another fault took it along
            self._submit(scene.undo)

    def strike(self, scene: Scene) -> None:
        with ExitStack() as held:
            scene.strikes_now()
            # YARN takes its time to preempt, and a job that is nearly done would be over: its chief stands still.
            with suppress(NotFound, IndexError, psutil.NoSuchProcess):
                held.enter_context(standing_still(scene.job.trainer("worker", 0)))
            for _ in range(2):
                self._application.add_container("greedy")
            try:
                scene.wait_for_cause("preempted")
            finally:
                self._application.shutdown()


def _with_argument(scene: Scene, argument: str) -> list[int]:
    """Processes of the job, other than the command that asked for them, with this argument."""
    found = [process for process in scene.job.processes() if argument in process.cmdline()]
    return [process.pid for process in found if "afo_client" not in process.cmdline()]


def _end(program: "subprocess.Popen[bytes]", sign: Path) -> None:
    program.kill()
    program.wait()
    sign.unlink(missing_ok=True)

"""A node's disk is full; a node cannot be reached. Both need root."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from afo.site.config import user_name
from afo_client.hadoop import Cluster
from cluster_faults.fault import Fault, Scene

_DISK_MIB = 256
#: What a task deletes is taken this soon.
_REFILL_S = 0.002
#: Where a fault of a node hits two of a job's tasks there, the job avoids it, and gives containers back that it gets
#: there all the same, each task up to three.
_AVOIDED = frozenset({"bad_host"})
_RESTARTS = 16


class FullDisk(Fault):
    """The file system of the application's directories on the chief's node has no byte left.

    It is one of its own, small and in memory, so that nothing else of the machine feels it.
    """

    causes = _AVOIDED | {"disk_full", "parameter_server_lost", "launch_failed", "container_lost", "child_error"}
    restarts = _RESTARTS
    generations = 2

    @property
    def name(self) -> str:
        return "disk full"

    def missing(self) -> str:
        return "" if os.geteuid() == 0 and shutil.which("mount") else "root, to mount a small file system"

    def prepare(self, cluster: Cluster, undo: ExitStack) -> None:
        for name in ("nodemanager-1", "nodemanager-2"):
            folder = _directory(cluster, name)
            folder.mkdir(parents=True, exist_ok=True)
            options = f"size={_DISK_MIB}m,mode=0710"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)

    def strike(self, scene: Scene) -> None:
        node = scene.node_of_worker(0)
        filler = _directory(scene.cluster, node) / "filler"
        scene.strikes_now()
        with _kept_full(filler):
            scene.wait_for_cause("disk_full")


class CutLink(Fault):
    """Nothing reaches a node for a while: connections stand still, new ones fail."""

    causes = _AVOIDED | {
        "parameter_server_lost", "child_silent", "container_lost", "storage_unreachable", "container_stopped",
    }  # fmt: skip
    restarts = _RESTARTS
    masters = 1
    generations = 2

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @property
    def name(self) -> str:
        return "link cut"

    def missing(self) -> str:
        return "" if os.geteuid() == 0 and shutil.which("ip") else "root and the program ip, to cut a link"

    def strike(self, scene: Scene) -> None:
        host = scene.cluster.daemon("nodemanager-2").addresses[0][0]
        route = ["blackhole", f"{host}/32", "table", "local"]
        scene.strikes_now()
        subprocess.run(["ip", "route", "add", *route], check=True)
        try:
            time.sleep(self._seconds)
        finally:
            subprocess.run(["ip", "route", "del", *route], check=True)


def _directory(cluster: Cluster, node: str) -> Path:
    """Where a node keeps the directories of this user's containers."""
    return cluster.directory / node / "local" / "usercache" / user_name() / "appcache"


@contextmanager
def _kept_full(file: Path) -> Iterator[None]:
    """No byte is left on the file's disk. A task that deletes a file first, to write the next one, gets none either."""
    over = threading.Event()
    filling = threading.Thread(target=_fill, args=(file, over), name="filler")
    filling.start()
    try:
        yield
    finally:
        over.set()
        filling.join()
        file.unlink()


def _fill(file: Path, over: threading.Event) -> None:
    with file.open("wb", buffering=0) as out:
        while not over.wait(_REFILL_S):
            for block in (bytes(1 << 20), bytes(512)):
                with suppress(OSError):  # until there is no space left
                    while out.write(block):
                        pass

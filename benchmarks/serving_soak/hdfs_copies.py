"""The same versions in a real HDFS, put there as they come, and a NameNode that can be gone."""

import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from afo import storage
from afo.errors import AfoError
from afo_client.hadoop import Cluster, ClusterSpec
from afo_client.hadoop.cluster_layout import node_name

_LOOK_S = 1.0
_AT_ONCE = 8
_NAMENODE = "namenode"


class CopiesInHDFS:
    """What lies in `versions` lies in `base_path` soon after: as a whole, under another name first."""

    def __init__(self, directory: Path, versions: Path) -> None:
        self._cluster, self._versions = Cluster(directory / "hadoop"), versions
        #: Looks that came to nothing, by error: the NameNode was gone, or a version was deleted meanwhile.
        self.given_up: Counter[str] = Counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    @property
    def base_path(self) -> str:
        """In HDFS."""
        return f"{self._cluster.hdfs_uri}/models/ctr"

    def start(self) -> None:
        """A NameNode and a DataNode, and the copies from now on."""
        self._cluster.start(ClusterSpec(nodes=1))
        for name in ("resourcemanager", node_name(1)):  # nothing runs on YARN here
            self._cluster.kill_daemon(name)
        storage.make_dirs(self.base_path)
        self._thread.start()

    def stop(self) -> None:
        """End all of it."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._cluster.stop()

    def pause(self) -> None:
        """The NameNode takes connections and answers nothing."""
        self._cluster.running()[_NAMENODE].send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        self._cluster.running()[_NAMENODE].send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """No NameNode."""
        self._cluster.kill_daemon(_NAMENODE)

    def start_again(self) -> None:
        """A NameNode with what the last one knew."""
        self._cluster.start_daemon(_NAMENODE)

    def _follow(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self._look()
            except (AfoError, OSError) as error:  # the next look does what this one has not
                self.given_up[type(error).__name__] += 1

    def _look(self) -> None:
        here = {int(path.name) for path in self._versions.glob("[0-9]*")}
        names = [storage.name(each.url) for each in storage.list_dir(self.base_path)]
        there = {int(name) for name in names if name.isdigit()}
        for number in sorted(here - there):
            self._put(number)
        for number in there - here:
            storage.delete(f"{self.base_path}/{number}", recursive=True)

    def _put(self, number: int) -> None:
        beside, version = f"{self.base_path}/.{number}.tmp", self._versions / str(number)
        storage.delete(beside, recursive=True)
        files = [each for each in version.rglob("*") if each.is_file()]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(storage.upload, map(str, files), [f"{beside}/{each.relative_to(version)}" for each in files]))
        if {each for each in version.rglob("*") if each.is_file()} != set(files):  # it is being deleted
            storage.delete(beside, recursive=True)
            return
        storage.rename(beside, f"{self.base_path}/{number}")

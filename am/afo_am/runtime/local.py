"""The `local` container runtime: every container is a process group on this machine.

State lies in files alone, so a restarted AM sees what an earlier one started:

    <job directory>/containers/<role>-<index>-<attempt>[.<n>]/
        lock           held as long as the container's process lives (see `afo.process.pidfile`)
        exit.json      how it ended            cancel      `kill` was called
        stdout stderr  of the Child            work/       its working directory
"""

import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import msgspec
import psutil

from afo.errors import NotFound, StorageError
from afo.formats.decoding import UNDECODABLE
from afo.process import pidfile
from afo.protocol.child_config import ATTEMPT, CONTAINER, INDEX, ROLE
from afo.rpc.messages import TaskId
from afo.storage.local import translate_errors
from afo_am.runtime import local_container as container_files
from afo_am.runtime.base import ContainerInfo, FinalState, Node

log = logging.getLogger(__name__)

#: Time beyond the container's own grace until `finish` kills what does not end.
_MARGIN_S = 5.0
_POLL_S = 0.05
#: Bytes free on a disk that is called full below this; it has a few left that no file gets.
_ROOM = 64 << 10


class LocalRuntime:
    """Containers as processes. `command` runs in each of them; `env` is what every container gets.

    A container has `grace_s` seconds after SIGTERM to end by itself; a Child uploads its logs in this time.
    Raises `StorageError` where the job's directory cannot be written or read.
    """

    def __init__(self, job_dir: Path, command: list[str], env: dict[str, str], *, grace_s: float = 15.0) -> None:
        self._grace_s = grace_s
        self._containers = job_dir / "containers"
        self._command = command
        self._env = env
        self._started: set[int] = set()  #: process ids that only this process can reap
        self._mutex = threading.Lock()  #: a directory is listed only once its lock is taken
        try:
            self._containers.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make {self._containers}: {error}") from error

    def request(self, task: TaskId, env: dict[str, str], *, more_memory: bool = False) -> str:
        """Start a container. There is no limit of memory here, so `more_memory` changes nothing."""
        own = {ROLE: task.role, INDEX: str(task.index), ATTEMPT: str(task.attempt)}
        with self._mutex:
            directory = self._new_directory(f"{task.role}-{task.index}-{task.attempt}")
            with translate_errors("start a container in", str(directory)):
                self._started.add(self._start(directory, {**self._env, **own, **env}))
        return directory.name

    def kill(self, handle: str) -> None:
        """SIGTERM to the container; it kills what has not ended after its grace by itself."""
        directory = self._containers / handle
        if directory.is_dir():
            with translate_errors("end the container in", str(directory)):
                (directory / container_files.CANCEL).touch()
                pidfile.send_signal(directory / container_files.LOCK, signal.SIGTERM)

    def list_containers(self) -> list[ContainerInfo]:
        """All containers of this job, those of earlier incarnations of the AM included."""
        with self._mutex, translate_errors("look at", str(self._containers)):
            self._reap()
            return [_info(directory) for directory in sorted(self._containers.iterdir())]

    def progress(self, fraction: float) -> None:
        """Nobody but the AM itself shows progress here."""

    def finish(self, state: FinalState, diagnostics: str) -> None:
        """End every container; returns when none is left."""
        log.info("the job ends: %s %s", state, diagnostics)
        for handle in self._live():
            self.kill(handle)
        deadline = time.monotonic() + self._grace_s + _MARGIN_S
        while live := self._live():
            if time.monotonic() > deadline:
                self._kill_now(live)
            time.sleep(_POLL_S)

    def nodes(self) -> list[Node]:
        """This machine."""
        with translate_errors("look at", "this machine's memory"):
            memory = psutil.virtual_memory()
        mib = 1024 * 1024
        total, used = memory.total // mib, (memory.total - memory.available) // mib
        return [Node(host=socket.gethostname(), memory=total, vcores=os.cpu_count() or 1, memory_used=used)]

    def queue(self) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing is held; containers go on."""

    def _start(self, directory: Path, env: dict[str, str]) -> int:
        (directory / container_files.WORK).mkdir(mode=0o700)
        wrapper = [sys.executable, "-P", "-m", container_files.__name__, str(directory), str(self._grace_s)]
        return pidfile.start(
            [*wrapper, *self._command],
            directory / container_files.LOCK,
            env={**os.environ, **env, CONTAINER: directory.name},
            stdout=directory / "stdout",
            stderr=directory / "stderr",
        )

    def _new_directory(self, name: str) -> Path:
        for number in range(1000):
            directory = self._containers / (f"{name}.{number}" if number else name)
            try:
                directory.mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise StorageError(f"cannot make {directory}: {error}") from error
            return directory
        raise StorageError(f"{self._containers} holds 1,000 containers of {name}; the AM asks in a loop")

    def _live(self) -> list[str]:
        return [info.handle for info in self.list_containers() if info.state != "ended"]

    def _kill_now(self, handles: list[str]) -> None:
        for handle in handles:
            log.warning("container %s does not end; killing it", handle)
            pidfile.send_signal(self._containers / handle / container_files.LOCK, signal.SIGKILL)

    def _reap(self) -> None:
        for pid in tuple(self._started):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self._started.discard(pid)


def _info(directory: Path) -> ContainerInfo:
    info = ContainerInfo(handle=directory.name, container=directory.name, host=socket.gethostname(), state="ended")
    lock = directory / container_files.LOCK
    if pidfile.alive(lock):
        return msgspec.structs.replace(info, state="running" if pidfile.pid_of(lock) else "requested")
    end = _exit(directory / container_files.EXIT)
    if end is None:
        ran = pidfile.pid_of(lock) is not None
        words = "was killed" if ran else f"never started{_why_not(directory)}"
        return msgspec.structs.replace(info, diagnostics=f"its process {words}")
    return msgspec.structs.replace(info, exit_code=end.code, diagnostics=end.diagnostics)


def _why_not(directory: Path) -> str:
    """In the system's words, that a process could not leave its number in this directory; '' if it could."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return f": {os.strerror(errno.EROFS)}"
    full = disk.f_bavail * disk.f_frsize < _ROOM or (disk.f_files and not disk.f_favail)
    return f": {os.strerror(errno.ENOSPC)}" if full else ""


def _exit(path: Path) -> container_files.Exit | None:
    try:
        with translate_errors("read", str(path)):
            return msgspec.json.decode(path.read_bytes(), type=container_files.Exit)
    except NotFound:
        return None
    except UNDECODABLE as error:
        raise StorageError(f"cannot read {path}: {error}") from error

"""The `local` container runtime: every container is a process group on this machine.

State lies in files alone, so a restarted AM sees what an earlier one started:

    <job directory>/containers/<role>-<index>-<attempt>[.<n>]/
        lock           held exactly as long as the container's process lives (see `local_container`)
        process.json   its process id          exit.json   how it ended          cancel   `kill` was called
        stdout stderr  of the Child            work/       its working directory
"""

import contextlib
import fcntl
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from afo.errors import StorageError
from afo.rpc.messages import TaskId
from afo_am.runtime import local_container as container_files
from afo_am.runtime.base import ContainerInfo, FinalState, Node

log = logging.getLogger(__name__)

#: Time beyond the container's own grace until `finish` kills what does not end.
_MARGIN_S = 5.0
_POLL_S = 0.05
#: The descriptor under which a container inherits its lock.
_LOCK_FD = 3

_T = TypeVar("_T", container_files.Process, container_files.Exit)


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
        own = {"AFO_ROLE": task.role, "AFO_INDEX": str(task.index), "AFO_ATTEMPT": str(task.attempt)}
        with self._mutex:
            directory = self._new_directory(f"{task.role}-{task.index}-{task.attempt}")
            try:
                self._started.add(self._start(directory, {**self._env, **own, **env}))
            except OSError as error:
                raise StorageError(f"cannot start a container in {directory}: {error}") from error
        return directory.name

    def kill(self, handle: str) -> None:
        """SIGTERM to the container; it kills what has not ended after its grace by itself."""
        directory = self._containers / handle
        if directory.is_dir():
            (directory / container_files.CANCEL).touch()
            _signal(directory, signal.SIGTERM)

    def list_containers(self) -> list[ContainerInfo]:
        """All containers of this job, those of earlier incarnations of the AM included."""
        with self._mutex:
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
        memory = psutil.virtual_memory()
        mib = 1024 * 1024
        total, used = memory.total // mib, (memory.total - memory.available) // mib
        return [Node(host=socket.gethostname(), memory=total, vcores=os.cpu_count() or 1, memory_used=used)]

    def close(self) -> None:
        """Nothing is held; containers go on."""

    def _start(self, directory: Path, env: dict[str, str]) -> int:
        (directory / container_files.WORK).mkdir(mode=0o700)
        wrapper = [sys.executable, "-P", "-m", container_files.__name__, str(directory), str(self._grace_s)]
        lock = os.open(directory / container_files.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # The process inherits the locked file description: locked from now until its end, without a gap.
            fcntl.flock(lock, fcntl.LOCK_EX)
            return os.posix_spawn(
                sys.executable,
                [*wrapper, *self._command],
                {**os.environ, **env, "AFO_CONTAINER": directory.name},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(directory / "stdout"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_OPEN, 2, str(directory / "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_DUP2, lock, _LOCK_FD),
                ],
                setsid=True,
            )
        finally:
            os.close(lock)

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
            _signal(self._containers / handle, signal.SIGKILL)

    def _reap(self) -> None:
        for pid in tuple(self._started):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self._started.discard(pid)


def _info(directory: Path) -> ContainerInfo:
    info = ContainerInfo(handle=directory.name, container=directory.name, host=socket.gethostname(), state="ended")
    if _alive(directory):
        started = (directory / container_files.PROCESS).exists()
        return msgspec.structs.replace(info, state="running" if started else "requested")
    end = _read(directory / container_files.EXIT, container_files.Exit)
    if end is None:
        return msgspec.structs.replace(info, diagnostics="its process was killed or never started")
    return msgspec.structs.replace(info, exit_code=end.code, diagnostics=end.diagnostics)


def _alive(directory: Path) -> bool:
    try:
        lock = os.open(directory / container_files.LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def _signal(directory: Path, number: signal.Signals) -> None:
    process = _read(directory / container_files.PROCESS, container_files.Process)
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            # The descriptor is pinned to one process: if the container lives now, it is that one.
            if _alive(directory):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)

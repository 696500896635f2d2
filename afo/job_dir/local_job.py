"""Liveness of a job of the `local` runtime, by the locks in its directory (see `afo.process.pidfile`)."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from afo.errors import StorageError
from afo.job.paths import JobPaths
from afo.process import pidfile
from afo.storage.url import LOCAL, parse

LOCK = "lock"
#: A mark of `afo kill` beside the lock of the Application Master.
KILLED = "killed"

State = Literal["RUNNING", "ORPHANED", "KILLED", "ENDED"]


def am_dir(paths: JobPaths) -> Path:
    """The directory of what only the AM reads. Raises `StorageError` for a job that lies on another machine."""
    location = parse(paths.dir)
    if location.scheme != LOCAL:
        raise StorageError(f"{paths.dir}: jobs of the local runtime lie on this machine's disk; see jobs_root.local")
    return Path(location.path, "am")


def am_lock(paths: JobPaths) -> Path:
    """Held by the AM's supervisor. Raises as `am_dir`."""
    return am_dir(paths) / LOCK


def container_locks(paths: JobPaths) -> list[Path]:
    """Held by the processes of its containers."""
    return sorted(am_dir(paths).parent.glob(f"containers/*/{LOCK}"))


def live_containers(paths: JobPaths, named: Collection[str]) -> set[str]:
    """Those of `named` that live. Raises as `am_dir`.

    A container is in its job's events once its lock is taken: to test the lock of another could get in the way of that.
    """
    locks = (lock for lock in container_locks(paths) if lock.parent.name in named)
    return {lock.parent.name for lock in locks if pidfile.alive(lock)}


def state_of(paths: JobPaths) -> State:
    """`ORPHANED` where the AM is gone and its containers have not noticed yet. Raises `StorageError`."""
    if pidfile.alive(am_lock(paths)):
        return "RUNNING"
    if any(map(pidfile.alive, container_locks(paths))):
        return "ORPHANED"
    return "KILLED" if (am_dir(paths) / KILLED).exists() else "ENDED"

"""Retention: deletion of what the site does not keep of old jobs, by `history.keep`."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from afo import storage
from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, StorageError
from afo.job.paths import JobPaths
from afo.site.history import Keep
from afo_history_server.maintenance.job_actions import DELETED, remove_job
from afo_history_server.store.fair_share import choose_fairly, fair_share
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.nofollow_files import MAX_DEPTH, IsLink

_LOG = logging.getLogger(__name__)


class Ended(Struct, frozen=True):
    """An ended job: when that was, in seconds since 1970, what its events, logs and summaries take, and whose it is."""

    job_id: str
    ended: float
    bytes: int
    owner: str = ""


def choose_expired(jobs: Sequence[Ended], keep: Keep, now: float) -> list[str]:
    """The jobs that are not kept, oldest first. Pure.

    Numbers and bytes are shared fairly: of the user who has most, jobs go before those of others do.
    """
    stay = sorted(jobs, key=lambda job: job.ended, reverse=True)
    if keep.age is not None:
        stay = [job for job in stay if now - job.ended <= keep.age]
    if keep.jobs is not None:
        stay = choose_fairly(stay, lambda job: job.owner, keep.jobs)
    if keep.bytes is not None:
        stay = list(_choose_within(stay, keep.bytes << 20))
    kept = {job.job_id for job in stay}
    gone = sorted((job for job in jobs if job.job_id not in kept), key=lambda job: job.ended)
    return [job.job_id for job in gone]


def _choose_within(jobs: Sequence[Ended], room: int) -> Iterable[Ended]:
    """Of each owner's jobs, which come newest first, those that fit into the owner's share of `room` bytes."""
    wants, taken = Counter[str](), Counter[str]()
    for job in jobs:
        wants[job.owner] += job.bytes
    share = fair_share(wants.values(), room)
    for job in jobs:
        taken[job.owner] += job.bytes
        if taken[job.owner] <= share:
            yield job


class Retention:
    """Applied to ended jobs alone. A job that holds a checkpoint or a model keeps these and what describes them."""

    def __init__(self, store: JobStore, keep: Keep, clock: Callable[[], float]) -> None:
        self._store, self._keep, self._clock = store, keep, clock
        #: Of jobs that have ended nothing grows.
        self._bytes: dict[str, int] = {}
        #: What is left of them stays.
        self._done: set[str] = set()

    def apply(self) -> list[str]:
        """The jobs that lost something. One that cannot be changed is passed over. Raises `ClusterUnreachable`."""
        _finish_deleting(self._store.files)
        if self._keep == Keep():
            return []
        old = choose_expired(list(self._list_ended()), self._keep, self._clock())
        return [job_id for job_id in old if self._forget(job_id)]

    def _list_ended(self) -> Iterable[Ended]:
        for job in self._store.jobs().jobs:
            if job.ended and job.since and job.job_id not in self._done:
                ended = job.since + (job.seconds or 0.0)
                yield Ended(job.job_id, ended, self._size(job.job_id), self._store.owner(job.job_id))

    def _size(self, job_id: str) -> int:
        """0 where no bytes are limited, or of a job that cannot be looked at."""
        if self._keep.bytes is None:
            return 0
        if job_id not in self._bytes:
            places = _passing(self._store.paths(job_id))
            try:
                self._bytes[job_id] = sum(_size(self._store.files, place) for place in places)
            except ClusterUnreachable:
                raise
            except AfoError as error:
                _LOG.warning("how much %s takes cannot be said: %s", job_id, error)
                self._bytes[job_id] = 0
        return self._bytes[job_id]

    def _forget(self, job_id: str) -> bool:
        paths = self._store.paths(job_id)
        try:
            if _holds_a_model(self._store.files, paths):
                for place in _passing(paths):
                    self._store.files.delete(place)
                self._done.add(job_id)
            else:
                remove_job(self._store.files, paths)
        except ClusterUnreachable:
            raise
        except AfoError as error:
            _LOG.warning("%s is older than what is kept, and cannot be deleted: %s", job_id, error)
            return False
        self._store.forget(job_id)
        self._bytes.pop(job_id, None)
        _LOG.info("events, logs and summaries of %s are deleted: `history.keep`", job_id)
        return True


def _passing(paths: JobPaths) -> tuple[str, ...]:
    """What tells of a job and is needed by none that comes after it."""
    return paths.events, paths.logs, paths.summaries


def _holds_a_model(files: JobFiles, paths: JobPaths) -> bool:
    """Also where a link leads to them, which a later job may follow."""
    return any(files.is_link(place) or _size(files, place) for place in (paths.checkpoints(""), paths.export))


def _size(files: JobFiles, url: str, depth: int = 1) -> int:
    """Bytes of all files below a directory, 0 where there is none and behind links.

    Raises `StorageError` for more than MAX_DEPTH levels.
    """
    if depth > MAX_DEPTH:
        raise StorageError(f"more than {MAX_DEPTH} levels of directories: {url}")
    try:
        found = files.list_dir(url)
    except (NotFound, IsLink):
        return 0
    return sum(_size(files, info.url, depth + 1) if info.is_dir else info.size for info in found)


def _finish_deleting(files: JobFiles) -> None:
    """What an earlier server began to delete before it was killed."""
    with _passing_over():
        for info in files.list_dir(files.root):
            if info.is_dir and storage.name(info.url).startswith(DELETED):
                with _passing_over():
                    files.delete(info.url)


@contextmanager
def _passing_over() -> Iterator[None]:
    try:
        yield
    except (NotFound, PermissionDenied, StorageError) as error:
        _LOG.warning("what was being deleted cannot be: %s", error)

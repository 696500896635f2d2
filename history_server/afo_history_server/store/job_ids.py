"""Ids of all jobs, by the names of the directories below the root. A link to a directory is no job."""

from collections.abc import Sequence

from afo import storage
from afo.errors import NotFound, SpecError
from afo.job.paths import check_job_id
from afo_history_server.store.job_files import JobFiles

#: A directory's time may be that of a second that has not passed yet, so it is listed again so often after a change.
_SURE = 5
#: And now and then anyway: for file systems that keep no such time, and for the times of the jobs' own directories.
_ANYWAY = 15


class JobIds:
    """Lists the root only where its time says that something came or went. One thread at a time."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        #: Newest first.
        self._ids: tuple[str, ...] = ()
        self._parsed: dict[str, str | None] = {}
        #: Id → whose directory it is, whatever the job says of itself.
        self._owners: dict[str, str] = {}
        self._changed: dict[str, float] = {}
        self._modified = -1.0
        #: The root is not there, and was not before: its first job makes it.
        self.missing = False
        #: Looks since the root's time changed.
        self._looks = 0

    def now(self) -> Sequence[str]:
        """The ids, newest first; the same object where nothing changed.

        Raises what `afo.storage` raises, and so `NotFound` for a root that is gone with the jobs that it had.
        """
        self.missing = False
        try:
            modified = storage.info(self._files.root).modified
        except NotFound:
            if self._ids:
                raise
            self.missing, modified = True, 0.0
        self._looks = self._looks + 1 if modified == self._modified else 0
        if self._looks < _SURE or self._looks % _ANYWAY == 0:
            found = self._list_jobs()
            self._ids = self._ids if found == self._ids else found
        self._modified = modified
        return self._ids

    def owner(self, job_id: str) -> str:
        """Whose directory it is, '' of a job that is not there."""
        return self._owners.get(job_id, "")

    def last_change(self, job_id: str) -> float:
        """When its directory changed last, as of the newest listing; 0 of a job that is not there."""
        return self._changed.get(job_id, 0.0)

    def _list_jobs(self) -> tuple[str, ...]:
        try:
            found = self._files.list_dir(self._files.root)
        except NotFound:
            found = []
        known = self._parsed
        urls = [info.url for info in found if info.is_dir]
        self._parsed = {url: known[url] if url in known else _job_id(url) for url in urls}
        jobs = {job_id: info for info in found if (job_id := self._parsed.get(info.url))}
        self._owners = {job_id: info.owner for job_id, info in jobs.items()}
        self._changed = {job_id: info.modified for job_id, info in jobs.items()}
        return tuple(sorted(self._owners, key=age_of_id, reverse=True))


def age_of_id(job_id: str) -> tuple[int, int]:
    """Ids hold the time their cluster or job began, and a number that grows."""
    _, began, number = job_id.split("_")
    return int(began), int(number)


def _job_id(url: str) -> str | None:
    try:
        return check_job_id(storage.name(url))
    except SpecError:
        return None

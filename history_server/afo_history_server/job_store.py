"""All jobs below one root: found by listing its directories, read when somebody looks, remembered within bounds."""

import threading
from collections.abc import Callable

from msgspec import Struct

from afo import storage
from afo.errors import AfoError, ClusterUnreachable, NotFound, SpecError
from afo.paths import JobPaths, checked_job_id
from afo_history_server.job_files import JobFiles
from afo_history_server.job_history import AnyRecord, FileProgress, JobHistory
from afo_history_server.job_settings import Setting, settings_of
from afo_history_server.job_summary import JobSummary, before, of_history, train_files
from afo_history_server.live_job import MAX_DOCUMENT, LiveJob, read_head, summary_of_ended
from afo_history_server.lru import Lru
from afo_history_server.telemetry import Telemetry

#: Jobs that one scan looks at, newest first, and finished ones whose line is remembered.
MAX_JOBS = 20_000
#: Jobs whose tasks and newest events are remembered.
MAX_OPEN = 64
#: A list younger than this is shown again.
FRESH_S = 2.0


class JobList(Struct, frozen=True, kw_only=True):
    """Result of one scan: newest job first, when it was made, and how many older jobs were left out."""

    jobs: tuple[JobSummary, ...]
    scanned: float
    left_out: int = 0


class JobStore:
    """Reads, never writes. Safe for threads; one scan runs at a time and the others wait for it."""

    def __init__(
        self, root: str, telemetry: Telemetry, clock: Callable[[], float], max_jobs: int = MAX_JOBS
    ) -> None:  # fmt: skip
        self.files = JobFiles(root)
        self.clock = clock
        self._telemetry, self._max_jobs = telemetry, max_jobs
        self._ended: Lru[str, JobSummary] = Lru(max_jobs)
        self._open: Lru[str, LiveJob] = Lru(MAX_OPEN)
        self._scan_lock = threading.Lock()
        self._list: JobList | None = None

    def paths(self, job_id: str) -> JobPaths:
        """Places of a job, there or not. Raises `NotFound` for a text that is no job id."""
        try:
            return JobPaths(self.files.root, checked_job_id(job_id))
        except SpecError as error:
            raise NotFound(str(error)) from error

    def jobs(self) -> JobList:
        """All jobs, at most `FRESH_S` old. Raises `ClusterUnreachable` or `PermissionDenied` for the root."""
        with self._scan_lock:
            if self._list is None or not 0 <= self.clock() - self._list.scanned < FRESH_S:
                with self._telemetry.scan():
                    self._list = self._scan()
                self._telemetry.count_jobs(job.state for job in self._list.jobs)
            return self._list

    def job(self, job_id: str) -> tuple[JobHistory, tuple[AnyRecord, ...]]:
        """A job now and its newest events, newest first. Raises `NotFound` and what `afo.storage` raises."""
        paths = self.paths(job_id)
        job, newest, errors = self._opened(paths).look()
        self._telemetry.count_errors(errors)
        return job, newest

    def job_and_files(self, job_id: str) -> tuple[JobHistory, dict[int, FileProgress]]:
        """A job now, and row of a training file → the newest pass over it. Raises as `job`."""
        job, _ = self.job(job_id)
        return job, self._opened(self.paths(job_id)).files()

    def settings(self, job_id: str) -> tuple[Setting, ...]:
        """The job as submitted. Raises `NotFound`, `SpecError` and what `afo.storage` raises."""
        return settings_of(*self._document(job_id))

    def train_files(self, job_id: str) -> tuple[str, ...]:
        """Its training files, by their rows. Raises as `settings`."""
        return train_files(*self._document(job_id))

    def _document(self, job_id: str) -> tuple[bytes, str]:
        """The whole `job.json`, and where it lies."""
        url = self.paths(job_id).job
        return self.files.read(url, MAX_DOCUMENT), url

    def _opened(self, paths: JobPaths) -> LiveJob:
        if known := self._open.get(paths.job_id):
            return known
        if not self.files.has_dir(paths.dir):
            raise NotFound(f"there is no job {paths.job_id} in {self.files.root}")
        try:
            head = read_head(self.files, paths)
        except SpecError:
            self._telemetry.count_errors(1)
            head = None
        return self._open.put(paths.job_id, LiveJob(self.files, paths, before(paths.job_id, head)))

    def _job_ids(self) -> list[str]:
        try:
            names = [storage.name(info.url) for info in self.files.list_dir(self.files.root) if info.is_dir]
        except NotFound:
            return []
        return [name for name in names if _is_job_id(name)]

    def _scan(self) -> JobList:
        newest = sorted(self._job_ids(), key=_age_of_id, reverse=True)
        found = [self._summary(job_id) for job_id in newest[: self._max_jobs]]
        found.sort(key=lambda job: (job.since, _age_of_id(job.job_id)), reverse=True)
        return JobList(jobs=tuple(found), scanned=self.clock(), left_out=max(0, len(newest) - self._max_jobs))

    def _summary(self, job_id: str) -> JobSummary:
        """One job's line; a job that cannot be read has one too, so that it cannot hide the others."""
        try:
            return self._ended.get(job_id) or self._fresh_summary(job_id)
        except ClusterUnreachable:
            raise
        except AfoError as error:
            return JobSummary(job_id=job_id, state="UNREADABLE", problem=str(error))

    def _fresh_summary(self, job_id: str) -> JobSummary:
        try:
            ended = summary_of_ended(self.files, self.paths(job_id))
        except SpecError:
            ended = None  # counted where the rest of the job is read
        return self._ended.put(job_id, ended) if ended else of_history(self.job(job_id)[0])


def _is_job_id(name: str) -> bool:
    try:
        return bool(checked_job_id(name))
    except SpecError:
        return False


def _age_of_id(job_id: str) -> tuple[int, int]:
    """Ids hold the time their cluster or job began, and a number that grows."""
    _, began, number = job_id.split("_")
    return int(began), int(number)

"""Store of all jobs below one root: found by listing, read when somebody looks, remembered within bounds."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from afo.data.prepare.profile import Profile
from afo.errors import AfoError, NotFound, PermissionDenied, SpecError, StorageError
from afo.formats.decoding import Malformed, from_json
from afo.job import Acls
from afo.job.paths import JobPaths, check_job_id
from afo.job_dir.code_snapshot import MOST_BYTES, CodeDifference, CodeSnapshot, compare_snapshots, decode_snapshot
from afo.protocol.profile_request import Operators
from afo_history_server.model.job_history import AnyRecord, FileProgress, JobHistory
from afo_history_server.model.job_settings import MAX_SCHEMA, Setting, schema_settings, settings_of
from afo_history_server.model.job_summary import JobSummary, initial_history, of_history
from afo_history_server.store.ended_jobs import EndedJobs
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_index import JobIndex, JobList
from afo_history_server.store.job_profiles import JobProfiles
from afo_history_server.store.live_job import MAX_DOCUMENT, LiveJob, read_head, summary_of_ended
from afo_history_server.store.lru import Lru
from afo_history_server.store.telemetry import Telemetry

#: Jobs that one scan looks at: the newest, by fair shares of the users that they belong to.
MAX_JOBS = 20_000
#: Jobs whose tasks and newest events are remembered.
MAX_OPEN = 256
#: Bytes of the statistics of a job's features.
MAX_FEATURES = 16 << 20
#: A list younger than this is shown again.
FRESH_S = 2.0


class JobStore:
    """Reads, never writes among the jobs. Safe for threads; one scan runs at a time.

    `index`: file on this machine for what is known of ended jobs; only a copy, see `EndedJobs`. `check_owners`: see
    `JobFiles`.
    """

    def __init__(
        self, root: str, telemetry: Telemetry, clock: Callable[[], float], index: Path | None = None,
        max_jobs: int = MAX_JOBS, check_owners: bool = False,
    ) -> None:  # fmt: skip
        self.files = JobFiles(root, check_owners)
        self.clock = clock
        self._telemetry = telemetry
        self._index = JobIndex(self.files, self._summary, EndedJobs(index), clock, max_jobs)
        self._open: Lru[str, LiveJob] = Lru(MAX_OPEN)
        self._profiles = JobProfiles(self.files)
        self._scan_lock = threading.Lock()
        self._list: JobList | None = None
        self._tried = 0.0

    def paths(self, job_id: str) -> JobPaths:
        """Places of a job, there or not. Raises `NotFound` for a text that is no job id."""
        try:
            return JobPaths(self.files.root, check_job_id(job_id))
        except SpecError as error:
            raise NotFound(str(error)) from error

    def jobs(self) -> JobList:
        """All jobs, at most `FRESH_S` old if the file system answers; else the last list, which says why.

        Raises `ClusterUnreachable` or `PermissionDenied` for the root while there is no list at all.
        """
        found = self._list
        return found if found and 0 <= self.clock() - self._tried < FRESH_S else self.refresh()

    def refresh(self) -> JobList:
        """Scan now; whoever comes while another thread does gets the list as it was. Raises as `jobs`."""
        if not self._scan_lock.acquire(blocking=self._list is None):
            return self._list or self.jobs()
        try:
            return self._scan(self._list)
        finally:
            self._tried = self.clock()
            self._scan_lock.release()

    def _scan(self, last: JobList | None) -> JobList:
        try:
            with self._telemetry.scan():
                self._list = self._index.scan()
            self._telemetry.count_jobs(job.state for job in self._list.jobs)
        except AfoError as error:
            if last is None:
                raise
            self._list = structs.replace(last, problem=str(error))
        return self._list

    def job(self, job_id: str) -> tuple[JobHistory, tuple[AnyRecord, ...]]:
        """A job now and its newest events, newest first. Raises `NotFound` and what `afo.storage` raises."""
        live = self._open_job(self.paths(job_id))
        job = self._look(live)
        while live.behind:
            job = self._look(live)
        return job, live.newest()

    def rights(self, job_id: str) -> tuple[str, str, Acls]:
        """(id, owner, access lists) of a job, as submitted: its log is not read for it. Raises as `job`."""
        submitted = self._open_job(self.paths(job_id)).before
        return submitted.job_id, submitted.user, submitted.acls

    def owner(self, job_id: str) -> str:
        """Whose directory a job has, whatever the job says of itself; '' of one that no scan has found."""
        return self._index.owner(job_id)

    def hear(self, job_id: str, words: str) -> None:
        """Show with a job that has not begun what YARN says of it. Raises as `job`."""
        self._open_job(self.paths(job_id)).hear(words)

    def reread(self, job_id: str) -> None:
        """What is kept of the job has changed, ended or not."""
        self._open.drop(job_id)
        self._index.reread(job_id)
        self._tried = 0.0

    def forget(self, job_id: str) -> None:
        """The job is not there any more."""
        self._open.drop(job_id)
        self._tried = 0.0

    def profiles(self, job: JobSummary) -> tuple[Operators, ...]:
        """What was profiled of a job; nothing of one that cannot be read. Raises `ClusterUnreachable`."""
        try:
            return self._profiles.of(self.paths(job.job_id), job.ended)
        except (NotFound, PermissionDenied, StorageError):
            return ()

    def job_and_files(self, job_id: str) -> tuple[JobHistory, Sequence[str], dict[int, FileProgress]]:
        """A job now, the names of its first splits, by number, and split → the newest pass over it. Raises as `job`."""
        job, _ = self.job(job_id)
        return job, *self._open_job(self.paths(job_id)).files()

    def settings(self, job_id: str) -> tuple[Setting, ...]:
        """The job as submitted. Raises `NotFound`, `Malformed` and what `afo.storage` raises."""
        return settings_of(*self._document(job_id))

    def schemas(self, job_ids: Sequence[str]) -> tuple[list[tuple[Setting, ...]], str]:
        """Of each job the schema that it was submitted with, where they differ; and why they cannot be told, or ''.

        Raises `ClusterUnreachable`, and `NotFound` for a job that is not there.
        """
        urls = [self.paths(job_id).schema for job_id in job_ids]
        nothing: list[tuple[Setting, ...]] = [()] * len(urls)
        try:
            texts = [self.files.read(url, MAX_SCHEMA + 1) for url in urls]
            if len(set(texts)) == 1:
                return nothing, ""
            return [schema_settings(text, url) for text, url in zip(texts, urls, strict=True)], ""
        except (NotFound, PermissionDenied, StorageError, SpecError) as error:
            return nothing, str(error)

    def code(self, job_ids: Sequence[str]) -> tuple[list[CodeDifference] | None, str]:
        """As `code_snapshot.compare_snapshots`. Raises as `schemas`."""
        try:
            return compare_snapshots({job_id: self._code(self.paths(job_id).code) for job_id in job_ids})
        except (Malformed, PermissionDenied, StorageError) as error:
            return None, f"the code is not compared: {error}"

    def _code(self, url: str) -> CodeSnapshot | None:
        try:
            return decode_snapshot(self.files.read(url, MOST_BYTES + 1), url)
        except NotFound:
            return None

    def features(self, job_id: str) -> Profile | None:
        """Statistics of its features as submitted; None where none are kept. Raises as `settings`."""
        url = self.paths(job_id).features
        try:
            data = self.files.read(url, MAX_FEATURES + 1)
        except NotFound:
            return None
        if len(data) > MAX_FEATURES:
            raise Malformed(f"{url}: larger than {MAX_FEATURES >> 20} MiB")
        return from_json(data, Profile, url)

    def _document(self, job_id: str) -> tuple[bytes, str]:
        """The whole `job.json`, and where it lies."""
        url = self.paths(job_id).job
        return self.files.read(url, MAX_DOCUMENT), url

    def _open_job(self, paths: JobPaths) -> LiveJob:
        known = self._open.get(paths.job_id)
        if known and known.submitted:
            return known
        if not self.files.has_dir(paths.dir):
            raise NotFound(f"there is no job {paths.job_id} in {self.files.root}")
        try:
            head = read_head(self.files, paths)
        except Malformed:
            self._telemetry.count_errors(1)
            return self._open.put(paths.job_id, LiveJob(self.files, paths, initial_history(paths.job_id, None)))
        if known and head is None:
            return known
        # Without its file it has just begun; its tags and access lists come with that, and it is read anew then.
        live = LiveJob(self.files, paths, initial_history(paths.job_id, head), submitted=head is not None)
        self._open.drop(paths.job_id)
        return self._open.put(paths.job_id, live)

    def _look(self, live: LiveJob) -> JobHistory:
        job, errors = live.look()
        self._telemetry.count_errors(errors)
        return job

    def _summary(self, job_id: str) -> JobSummary:
        """The line of a job, whatever its state; an ended one takes three small files. Raises as `job`.

        Of a long log a part is read, and the next scan goes on: the list waits for no job's whole log.
        """
        try:
            ended = summary_of_ended(self.files, self.paths(job_id))
        except Malformed:
            ended = None  # counted where the rest of the job is read
        if ended is not None:
            return ended
        live = self._open_job(self.paths(job_id))
        job = self._look(live)
        if live.behind:
            self._index.reread(job_id)
        return of_history(job)

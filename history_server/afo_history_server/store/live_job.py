"""A live job that is read again and again: each look takes in what came since the last one."""

import threading
import time
from collections.abc import Sequence

from msgspec import structs

from afo.errors import NotFound, PermissionDenied, StorageError
from afo.events import types as ev
from afo.events.event_tail import EventTail
from afo.formats.decoding import Malformed
from afo.job.paths import JobPaths
from afo.job_dir import annotations as an
from afo_history_server.model.history_fold import HistoryFold
from afo_history_server.model.job_history import AnyRecord, FileProgress, JobHistory, apply_verdict
from afo_history_server.model.job_summary import (
    JobHead,
    JobSummary,
    annotate_job,
    decode_head,
    decode_verdict,
    initial_history,
    of_verdict,
)
from afo_history_server.store.job_files import JobFiles

#: Bytes of job.json, which names all training files, and of verdict.json; larger ones are refused as damaged.
MAX_DOCUMENT, _MAX_VERDICT = 64 << 20, 4 << 20
#: How old notes and tags of a job that is looked at may be.
ANNOTATIONS_EVERY_S = 5.0
#: No longer line of a log is read: requests read logs side by side, and what a line holds takes many times its bytes.
#: `MAX_OTHER`: of an event that does not name each split; no honest one has as many bytes.
MAX_LINE, MAX_OTHER = 16 << 20, 1 << 20
#: Bytes of a job's log that one look reads, and the line in which they end: other jobs wait for it.
SHARE = 4 << 20


def read_head(files: JobFiles, paths: JobPaths) -> JobHead | None:
    """The job as submitted, None while it is not there. Raises `Malformed` and what `afo.storage` raises.

    Where owners are checked it has to be there and be its user's: it decides who may see the job.
    """
    try:
        head = decode_head(files.read(paths.job, MAX_DOCUMENT), paths.job)
    except NotFound:
        if files.check_owners:
            raise
        return None
    files.check_owner(paths.job, head.user)
    return head


def read_verdict(files: JobFiles, paths: JobPaths) -> ev.JobFinished | None:
    """The verdict, None while the job has none. Raises `Malformed` and what `afo.storage` raises."""
    try:
        return decode_verdict(files.read(paths.verdict, _MAX_VERDICT), paths.verdict)
    except NotFound:
        return None


def read_annotations(files: JobFiles, paths: JobPaths) -> tuple[an.Annotations, str]:
    """What people said of a job, and why that cannot be read; the rest of it can. Raises `ClusterUnreachable`."""
    try:
        return an.decode(files.read(paths.annotations, an.MOST_BYTES + 1), paths.annotations), ""
    except NotFound:
        return an.NONE, ""
    except (Malformed, PermissionDenied, StorageError) as error:
        return an.NONE, str(error)


class LiveJob:
    """Log and verdict of one job. Safe for threads; `look` is quick when nothing is new, and bounded else.

    `submitted`: `before` is all that will be known of the job's file; False while that is not there.
    """

    def __init__(self, files: JobFiles, paths: JobPaths, before: JobHistory, *, submitted: bool = True) -> None:
        self._files, self._paths = files, paths
        self.submitted = submitted
        #: The job as submitted: whose it is, and who else may see it.
        self.before = before
        self._lock = threading.Lock()
        self._log = EventTail(paths.events, files, max_line=MAX_LINE, max_other=MAX_OTHER)
        self._fold = HistoryFold(before)
        self._verdict: ev.JobFinished | None = None
        #: The verdict is known and the whole log was read: nothing can come any more.
        self._closed = False
        self._damaged = 0
        #: The newest look has left something to the next one.
        self.behind = False
        #: What people said of it, why that cannot be read, and when it is read again.
        self._annotations, self._annotations_problem, self._annotations_due = an.NONE, "", 0.0
        #: What YARN says of a job that has not begun.
        self._words_of_yarn = ""

    def hear(self, words: str) -> None:
        """Take in what YARN says of a job whose Application Master has not begun."""
        self._words_of_yarn = words

    def look(self) -> tuple[JobHistory, int]:
        """The job now, and how many parse errors are new. Raises what `afo.storage` raises."""
        with self._lock:
            errors = 0 if self._closed else self._read()
            job = structs.replace(self._fold.history(), unreadable_lines=self._log.damaged, cut=self._log.stopped)
            if job.state == "SUBMITTED" and self._words_of_yarn:
                job = structs.replace(job, waiting=f"{job.waiting}; {self._words_of_yarn}")
            job = annotate_job(job, *self._read_annotations())
            return (apply_verdict(job, self._verdict) if self._verdict else job), errors

    def newest(self) -> tuple[AnyRecord, ...]:
        """As of the last look: the newest events, newest first."""
        with self._lock:
            return self._fold.newest()

    def files(self) -> tuple[Sequence[str], dict[int, FileProgress]]:
        """As of the last look: what the first splits are called, by their number; split → the newest pass over it."""
        with self._lock:
            return self._fold.files()

    def _read_annotations(self) -> tuple[an.Annotations, str]:
        if (now := time.monotonic()) >= self._annotations_due:
            self._annotations, self._annotations_problem = read_annotations(self._files, self._paths)
            self._annotations_due = now + ANNOTATIONS_EVERY_S
        return self._annotations, self._annotations_problem

    def _read(self) -> int:
        before = self._log.damaged + self._damaged
        try:
            # Before the log: what is read after it is the whole log.
            self._verdict = read_verdict(self._files, self._paths)
        except Malformed:
            self._damaged = 1
        end, self.behind = self._log.read + SHARE, False
        for record in self._log.poll():
            self._fold.take(record)
            if self._log.read >= end:
                self.behind = True
                break
        self._closed = self._verdict is not None and not self.behind
        return self._log.damaged + self._damaged - before


def summary_of_ended(files: JobFiles, paths: JobPaths) -> JobSummary | None:
    """The line of a job that has a verdict, from its small files. Raises `Malformed` and what storage raises."""
    verdict = read_verdict(files, paths)
    head = read_head(files, paths) if verdict else None
    if not verdict or not head:
        return None
    return of_verdict(annotate_job(initial_history(paths.job_id, head), *read_annotations(files, paths)), verdict)

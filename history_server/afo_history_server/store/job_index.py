"""Index of all jobs, brought up to date by each scan: ended ones are read once, the others as they grow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from afo.errors import AfoError, ClusterUnreachable, in_words
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.ended_jobs import Ended, EndedJobs
from afo_history_server.store.fair_share import choose_fairly
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_ids import JobIds, age_of_id

_LOG = logging.getLogger(__name__)
#: Jobs of which nothing was heard for `QUIET_S`, and those that cannot be read, are looked at every `QUIET_EVERY_S`.
QUIET_S = 600.0
QUIET_EVERY_S = 30.0
#: Jobs read side by side, where there are many.
_READERS = 8


class Line(Struct, frozen=True):
    """A job in the list, and what each question would otherwise work out again."""

    job: JobSummary
    #: Where words are looked for.
    text: str
    #: Greater is newer.
    order: tuple[float, int, int]
    #: When its directory had changed last.
    changed: float = 0.0


class JobList(Struct, frozen=True, kw_only=True):
    """Result of one scan: newest job first, when it was made, and how many older jobs were left out."""

    lines: tuple[Line, ...] = ()
    scanned: float
    left_out: int = 0
    #: The directory of jobs is not there.
    missing: bool = False
    #: Why no newer list could be made.
    problem: str = ""

    @property
    def jobs(self) -> Iterable[JobSummary]:
        """Newest first."""
        return (line.job for line in self.lines)


class JobIndex:
    """`look` reads a job, whatever its state. Scans are made by one thread at a time."""

    def __init__(
        self, files: JobFiles, look: Callable[[str], JobSummary], kept: EndedJobs, clock: Callable[[], float],
        max_jobs: int,
    ) -> None:  # fmt: skip
        self._ids = JobIds(files)
        self._look, self._kept, self._clock, self._max_jobs = look, kept, clock, max_jobs
        self._ended: dict[str, Line] | None = None
        self._sorted: list[Line] = []
        #: The ids of the scan before, the same object where none came or went, and those of them that are looked at.
        self._seen: Sequence[str] | None = None
        self._wanted: Sequence[str] = ()
        #: Job id → its line and when it was looked at.
        self._others: dict[str, tuple[Line, float]] = {}
        #: Job id → when it came, of those that came after the first scan: it may take a while until they say something.
        self._came: dict[str, float] = {}
        #: Jobs that the next scan reads, whatever their state.
        self._again: set[str] = set()

    def scan(self) -> JobList:
        """Raises `ClusterUnreachable` or `PermissionDenied` for the root; what was read by then stays known."""
        ids = self._ids.now()
        ended = self._update_known(ids)
        again = self._due_again(ended)
        self._read(
            [job_id for job_id in self._wanted if job_id in again or (job_id not in ended and self._is_due(job_id))]
        )
        others = [line for line, _ in self._others.values()]
        # Two sorted runs for the most part, so this takes little more than a walk.
        lines = sorted([*self._sorted, *others], key=lambda line: line.order, reverse=True)
        return JobList(lines=tuple(lines), scanned=self._clock(), left_out=len(ids) - len(self._wanted),
                       missing=self._ids.missing)  # fmt: skip

    def owner(self, job_id: str) -> str:
        """Whose directory a job has, as of the last scan."""
        return self._ids.owner(job_id)

    def reread(self, job_id: str) -> None:
        """Have the next scan read a job, though it has ended or is quiet. For any thread."""
        self._again.add(job_id)

    def _due_again(self, ended: dict[str, Line]) -> set[str]:
        """Jobs to be read again whatever their state: asked for, or ended ones to which somebody has written since."""
        found = set()
        while self._again:
            found.add(self._again.pop())
        return found | {job_id for job_id, line in ended.items() if self._ids.last_change(job_id) != line.changed}

    def _update_known(self, ids: Sequence[str]) -> dict[str, Line]:
        """The ended jobs among `ids` that need not be read; those not among them are forgotten."""
        if self._ended is None:
            self._ended = {job_id: line_of(entry.job, entry.changed) for job_id, entry in self._kept.load().items()}
            self._sort()
        if ids is self._seen:
            return self._ended
        before, self._seen = self._seen, ids
        # One user's jobs, however many, push out nobody else's.
        self._wanted = choose_fairly(ids, self._ids.owner, self._max_jobs)
        there = set(self._wanted)
        if before is not None:
            now = self._clock()
            kept = there.intersection(self._came)
            self._came = {job_id: self._came.get(job_id, now) for job_id in there.difference(before) | kept}
        if gone := self._ended.keys() - there:
            self._forget(gone)
        for job_id in self._others.keys() - there:
            del self._others[job_id]
        return self._ended

    def _is_due(self, job_id: str) -> bool:
        if job_id not in self._others:
            return True
        (line, looked), now = self._others[job_id], self._clock()
        heard = max(line.job.last_event, line.job.since, self._came.get(job_id, 0.0))
        quiet = line.job.problem or now - heard > QUIET_S
        quiet = quiet and line.changed == self._ids.last_change(job_id)
        return not (quiet and 0 <= now - looked < QUIET_EVERY_S)

    def _read(self, job_ids: Sequence[str]) -> None:
        if len(job_ids) <= _READERS:
            found = list(map(self._summary, job_ids))
        else:
            with ThreadPoolExecutor(_READERS, thread_name_prefix="read-jobs") as readers:
                found = list(readers.map(self._summary, job_ids))
        unreachable = [error for error in found if isinstance(error, ClusterUnreachable)]
        jobs = [summary for summary in found if isinstance(summary, JobSummary)]
        self._take([job for job in jobs if job.ended])
        self._reopen([job.job_id for job in jobs if not job.ended])
        now = self._clock()
        self._others |= {job.job_id: (self._line(job), now) for job in jobs if not job.ended}
        if unreachable:
            raise unreachable[0]

    def _line(self, job: JobSummary) -> Line:
        return line_of(job, self._ids.last_change(job.job_id))

    def _take(self, ended: Sequence[JobSummary]) -> None:
        if ended and self._ended is not None:
            self._ended |= {job.job_id: self._line(job) for job in ended}
            for job in ended:
                self._others.pop(job.job_id, None)
                self._came.pop(job.job_id, None)
            self._kept.update([Ended(job, self._ids.last_change(job.job_id)) for job in ended], ())
            self._sort()

    def _reopen(self, job_ids: Sequence[str]) -> None:
        """Jobs that had ended as far as was known, and cannot be read now or have lost their verdicts."""
        if gone := (self._ended or {}).keys() & set(job_ids):
            self._forget(gone)

    def _forget(self, gone: Set[str]) -> None:
        self._ended = {job_id: line for job_id, line in (self._ended or {}).items() if job_id not in gone}
        self._kept.update((), gone)
        self._sort()

    def _sort(self) -> None:
        self._sorted = sorted((self._ended or {}).values(), key=lambda line: line.order, reverse=True)

    def _summary(self, job_id: str) -> JobSummary | ClusterUnreachable:
        """One job's line; a job that cannot be read has one too, so that it cannot hide the others."""
        try:
            return self._look(job_id)
        except ClusterUnreachable as error:
            return error
        except Exception as error:  # also a fault of ours that one job's files bring to light
            if not isinstance(error, AfoError):
                _LOG.exception("%s cannot be read", job_id)
            return JobSummary(job_id=job_id, state="UNREADABLE", problem=in_words(error))


def line_of(job: JobSummary, changed: float = 0.0) -> Line:
    """The line of a job; `changed`: when its directory had changed."""
    tags = (f"{key}={value}" for key, value in job.tags.items())
    text = "\n".join((job.job_id, job.name, job.user, job.queue, job.cause, *tags, job.notes)).casefold()
    return Line(job, text, (job.since, *age_of_id(job.job_id)), changed)

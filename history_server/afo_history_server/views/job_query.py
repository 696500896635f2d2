"""Queries of the list of jobs: filters and order. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from afo.errors import UsageError
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.job_index import Line
from afo_history_server.views.chosen_columns import KINDS, Column, column

#: What the list can be sorted by beside columns of `chosen_columns`, and where a job has it.
SORTS: dict[str, Callable[[JobSummary], Any]] = {
    "began": lambda job: job.since or None,
    "name": lambda job: job.name.casefold() or None,
    "user": lambda job: job.user.casefold() or None,
    "queue": lambda job: job.queue.casefold() or None,
    "state": lambda job: job.state,
    "seconds": lambda job: job.seconds,
    "auc": lambda job: job.auc,
    "core_hours": lambda job: job.core_hours,
}


class JobQuery(Struct, frozen=True, kw_only=True):
    """An empty field asks for nothing. `since` and `until` are seconds since 1970, the latter excluded."""

    #: Words that all have to occur in the id, name, user, queue, cause, tags or notes; case does not matter.
    q: str = ""
    state: tuple[str, ...] = ()
    user: str = ""
    queue: str = ""
    cause: str = ""
    #: `team` or `team=feeds`.
    tag: str = ""
    since: float | None = None
    until: float | None = None
    columns: tuple[Column, ...] = ()
    sort: str = "began"
    descending: bool = True

    @property
    def filters(self) -> bool:
        """It asks for less than all jobs."""
        return bool(self.q or self.state or self.user or self.queue or self.cause or self.tag) or (
            self.since is not None or self.until is not None
        )

    def of(self, lines: Sequence[Line]) -> Sequence[JobSummary]:
        """Those asked for, in order; jobs without the value that is sorted by come last, equal ones stay in order.

        `lines` come with the newest first.
        """
        value, words = sorter(self.sort), self.q.casefold().split()
        if self.filters:
            lines = [line for line in lines if all(word in line.text for word in words) and self._matches(line.job)]
        found = [line.job for line in lines]
        if self.sort == "began" and self.descending:
            return found
        known = [job for job in found if value(job) is not None]
        known.sort(key=value, reverse=self.descending)
        return (*known, *(job for job in found if value(job) is None))

    def _matches(self, job: JobSummary) -> bool:
        """Is it one of those asked for, by all but the words?"""
        return (
            (not self.state or job.state in self.state)
            and self.user in ("", job.user)
            and self.queue in ("", job.queue)
            and self.cause in ("", job.cause)
            and (not self.tag or _has_tag(job, self.tag))
            and (self.since is None or job.since >= self.since)
            and (self.until is None or 0 < job.since < self.until)
        )


def sorter(name: str) -> Callable[[JobSummary], Any]:
    """What of a job the list is sorted by. Raises `UsageError`."""
    if name in SORTS:
        return SORTS[name]
    if name.partition(".")[0] in KINDS:
        return column(name).order
    raise UsageError(f"sort is {name[:40]!r}; allowed is {', '.join(SORTS)}, or a column like metrics.log_loss")


def _has_tag(job: JobSummary, tag: str) -> bool:
    key, equals, value = tag.partition("=")
    return key in job.tags and (not equals or job.tags[key] == value)

"""The fleet: all jobs of a time together, what they took and wasted, why jobs failed. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from afo_history_server.model.job_summary import JobSummary

#: Rows of a table.
ROWS = 20
#: What jobs can be taken together by, besides `tag:NAME`.
GROUPS: dict[str, Callable[[JobSummary], str]] = {
    "user": lambda job: job.user,
    "queue": lambda job: job.queue,
    "name": lambda job: job.name,
}
_TAG = "tag:"


class Usage(Struct, frozen=True, kw_only=True):
    """Jobs of one group that have ended. Core-hours; `lost` are those of jobs that did not succeed."""

    name: str = ""
    jobs: int = 0
    failed: int = 0
    core_hours: float = 0.0
    lost: float = 0.0
    #: Core-hours in which training waited for input: each job's own times the share of time that it waited.
    waiting: float = 0.0

    @property
    def wasted(self) -> float:
        """Share of the core-hours that trained nothing."""
        return (self.lost + self.waiting) / self.core_hours if self.core_hours else 0.0


class Fleet(Struct, frozen=True, kw_only=True):
    """Over the jobs that began in a time; `groups` are the largest first."""

    total: Usage
    running: int
    groups: tuple[Usage, ...]
    #: Cause → failed jobs, the most frequent first.
    causes: tuple[tuple[str, int], ...]
    #: Those that waited longest for input, in core-hours.
    slowest: tuple[JobSummary, ...]


def group_of(by: str) -> Callable[[JobSummary], str] | None:
    """What a job belongs to by `user`, `queue`, `name` or `tag:NAME`; None for anything else."""
    if by.startswith(_TAG) and len(by) > len(_TAG):
        return lambda job: job.tags.get(by.removeprefix(_TAG), "")
    return GROUPS.get(by)


def fleet(jobs: Iterable[JobSummary], group: Callable[[JobSummary], str]) -> Fleet:
    """Jobs that still run are counted and no more: what they took is not known yet."""
    ended: list[JobSummary] = []
    running = 0
    for job in jobs:
        if job.ended:
            ended.append(job)
        else:
            running += 1
    groups: dict[str, list[JobSummary]] = defaultdict(list)
    for job in ended:
        groups[group(job)].append(job)
    usages = sorted((_usage(name, members) for name, members in groups.items()), key=lambda usage: -usage.core_hours)
    causes = Counter(job.cause for job in ended if job.state == "FAILED")
    return Fleet(
        total=_usage("", ended), running=running, groups=tuple(usages[:ROWS]), causes=tuple(causes.most_common(ROWS)),
        slowest=tuple(sorted(filter(wait_core_hours, ended), key=lambda job: -wait_core_hours(job))[:ROWS]),
    )  # fmt: skip


def wait_core_hours(job: JobSummary) -> float:
    """Core-hours in which it waited for input."""
    return (job.core_hours or 0.0) * (job.input_wait or 0.0)


def _usage(name: str, jobs: Sequence[JobSummary]) -> Usage:
    good = [job for job in jobs if job.state == "SUCCEEDED"]
    total = sum(job.core_hours or 0.0 for job in jobs)
    return Usage(
        name=name, jobs=len(jobs), failed=sum(job.state == "FAILED" for job in jobs), core_hours=total,
        lost=total - sum(job.core_hours or 0.0 for job in good), waiting=sum(map(wait_core_hours, good)),
    )  # fmt: skip

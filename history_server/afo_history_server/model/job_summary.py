"""Summary of a job: its line in the list."""

from itertools import islice
from math import isfinite
from typing import TypeVar

from msgspec import Struct, structs

from afo.events import types as ev
from afo.formats.decoding import from_json
from afo.job import Acls
from afo.job_dir import annotations as an
from afo_history_server.model.job_history import FINAL, JobHistory, apply_verdict
from afo_history_server.model.job_settings import explicit_settings
from afo_history_server.model.text import truncate

T = TypeVar("T")
#: Of one job in the list: metrics, tags, users in one of its access lists, characters of a name and of a sentence. The
#: list holds thousands of jobs, and what one of them says of itself is to burden nobody else's.
_MOST_METRICS, _MOST_TAGS, MOST_USERS, _MOST_NAME, _MOST_WORDS = 64, 64, 200, 200, 2000


class JobSummary(Struct, frozen=True, kw_only=True):
    """What is known of a job without its tasks. Times in seconds since 1970, 0 while unknown."""

    job_id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    runtime: str = ""
    tags: dict[str, str] = {}
    notes: str = ""
    #: Settings that somebody said, by their paths in the job file.
    params: dict[str, str] = {}
    acls: Acls = Acls()
    state: str = "SUBMITTED"
    cause: str = ""
    #: As that of the job.
    waiting: str = ""
    submitted: float = 0.0
    started: float = 0.0
    #: How long it took; None while it runs.
    seconds: float | None = None
    #: When something was heard of it last; 0 once it has ended.
    last_event: float = 0.0
    auc: float | None = None
    #: Of its model, by name.
    metrics: dict[str, float] = {}
    #: `host:port` where its Application Master answers `/metrics`; '' where it does not, and once it has ended.
    metrics_address: str = ""
    #: Known once it has ended.
    core_hours: float | None = None
    #: Share of its time.
    input_wait: float | None = None
    #: Why there is no more to show.
    problem: str = ""

    @property
    def ended(self) -> bool:
        """Nothing of it runs any more."""
        return self.state in FINAL

    @property
    def since(self) -> float:
        """When it began, or was submitted while it has not begun."""
        return self.started or self.submitted


class _Acls(Struct, frozen=True):
    """As `Acls`; what another version says beyond it gives nobody a right."""

    view: tuple[str, ...] = ()
    modify: tuple[str, ...] = ()


class _Job(Struct):
    name: str = ""
    queue: str = ""
    tags: dict[str, str] = {}
    acls: _Acls = _Acls()


class JobHead(Struct):
    """The part of `job.json` that every version writes; other fields are passed over."""

    job: _Job
    user: str = ""
    runtime: str = ""
    afo_version: str = ""
    submitted: float = 0.0
    #: Not in the file: taken of the rest of it.
    params: dict[str, str] = {}


def decode_head(data: bytes, url: str) -> JobHead:
    """With all texts cut to what a list keeps of them. Raises `Malformed`."""
    head = _decode(data, JobHead, url)
    job = _Job(name=_name(head.job.name), queue=_name(head.job.queue), tags=_tags(head.job.tags),
               acls=_Acls(view=_users(head.job.acls.view), modify=_users(head.job.acls.modify)))  # fmt: skip
    return JobHead(
        job=job, user=_name(head.user), runtime=_name(head.runtime), afo_version=_name(head.afo_version),
        submitted=head.submitted, params=explicit_settings(data, url),
    )  # fmt: skip


def decode_verdict(data: bytes, url: str) -> ev.JobFinished:
    """Raises `Malformed`."""
    return _decode(data, ev.JobFinished, url)


def initial_history(job_id: str, head: JobHead | None) -> JobHistory:
    """The job before its first event."""
    if head is None:
        return JobHistory(job_id=job_id)
    return JobHistory(
        job_id=job_id, name=head.job.name, user=head.user, queue=head.job.queue, runtime=head.runtime,
        afo_version=head.afo_version, submitted=head.submitted, tags=head.job.tags,
        acls=Acls(view=head.job.acls.view, modify=head.job.acls.modify), params=head.params,
    )  # fmt: skip


def annotate_job(job: JobHistory, annotations: an.Annotations, problem: str = "") -> JobHistory:
    """The job with what people said of it; `problem`: why that cannot be read."""
    tags = job.tags if annotations.tags is None else annotations.tags
    return structs.replace(
        job, notes=annotations.notes, tags=tags, notes_problem=problem, notes_version=annotations.version()
    )


def of_history(job: JobHistory) -> JobSummary:
    """The line of a job."""
    return JobSummary(
        job_id=job.job_id, name=_name(job.name), user=_name(job.user), queue=_name(job.queue),
        runtime=_name(job.runtime), tags=_tags(job.tags),
        notes=truncate(job.notes, _MOST_WORDS), params=job.params, acls=job.acls, state=_name(job.state),
        cause=_name(job.cause), waiting=truncate(job.waiting, _MOST_WORDS),
        submitted=job.submitted, started=job.started, seconds=job.seconds,
        last_event=0.0 if job.ended else job.last_event, auc=job.metrics.get("auc"), metrics=_finite(job.metrics),
        metrics_address="" if job.ended else job.metrics_address, core_hours=job.core_hours, input_wait=job.input_wait,
    )  # fmt: skip


def of_verdict(before: JobHistory, verdict: ev.JobFinished) -> JobSummary:
    """The line of a job that has ended, without its event log."""
    return of_history(apply_verdict(before, verdict))


def _name(text: str) -> str:
    return truncate(text, _MOST_NAME)


def _tags(tags: dict[str, str]) -> dict[str, str]:
    return {_name(key): _name(value) for key, value in islice(tags.items(), _MOST_TAGS)}


def _users(names: tuple[str, ...]) -> tuple[str, ...]:
    """The first of them; a name is never cut, for what is left could be another user's."""
    return tuple(islice((name for name in names if len(name) <= _MOST_NAME), MOST_USERS))


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    """The first of them; a hostile verdict may hold any number of anything."""
    known = ((name[:_MOST_NAME], value) for name, value in metrics.items() if isfinite(value))
    return dict(islice(known, _MOST_METRICS))


def _decode(data: bytes, kind: type[T], url: str) -> T:
    return from_json(data, kind, url)

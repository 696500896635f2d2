"""Types of the answers of `/api/v1`. Fields may be added under v1, none is renamed, removed or changed in meaning.

Times are seconds since 1970, memory of attempts in MiB, `peak_rss` in bytes.
"""

from typing import Any

from msgspec import Struct

from afo.yarn.queues import Queue
from afo_history_server.logs.log_range import LogLine
from afo_history_server.model.job_history import FileProgress, JobHistory
from afo_history_server.model.job_settings import Setting
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.job_profiles import HotOperator
from afo_history_server.views.fleet import Fleet
from afo_history_server.views.nodes import Node, Waiting

API = "afo/v1"


class Answer(Struct, frozen=True, kw_only=True):
    """Base of all answers."""

    api: str = API


class JobsAnswer(Answer, frozen=True):
    """Page `page` of `pages` of the list, counted from 1. `total` of the `known` jobs are what was asked for.

    `cells`: of each of the `jobs` its values in `columns`, null where it has none.
    `left_out` older ones are on no page. `problem`: why the list is older than it should be, '' if it is not.
    `missing`: the directory of jobs is not there.
    """

    jobs: tuple[JobSummary, ...]
    page: int
    pages: int
    size: int
    total: int
    known: int
    left_out: int
    scanned: float
    problem: str = ""
    missing: bool = False
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[float | str | None, ...], ...] = ()


class JobAnswer(Answer, frozen=True):
    """A job and its tasks."""

    job: JobHistory


class ActionAnswer(Answer, frozen=True):
    """It was asked for; the job's page shows when it has happened."""

    job_id: str
    action: str


class EventRecord(Struct, frozen=True, kw_only=True):
    """A line of the event log; `event` as it stands there, its `type` included."""

    v: int
    seq: int
    am_attempt: int
    incarnation: int
    time: float
    event: dict[str, Any]


class EventsAnswer(Answer, frozen=True):
    """The newest events first, of `total`."""

    job_id: str
    total: int
    events: tuple[EventRecord, ...]


class TrainingFile(Struct, frozen=True, kw_only=True):
    """A split, `url` or `url:begin+length`, and the newest pass over it that is part of the model."""

    url: str
    progress: FileProgress | None


class FilesAnswer(Answer, frozen=True):
    """A page of the training files, in the order of their numbers, of the first 200,000."""

    job_id: str
    files: tuple[TrainingFile, ...]
    page: int
    pages: int
    total: int


class SettingsAnswer(Answer, frozen=True):
    """The job as submitted, value by value; secret ones are not shown."""

    job_id: str
    settings: tuple[Setting, ...]


class LogAnswer(Answer, frozen=True):
    """Lines of a log of `size` bytes; they take the bytes [`start`, `stop`)."""

    lines: tuple[LogLine, ...]
    start: int
    stop: int
    size: int


class FleetAnswer(Answer, frozen=True):
    """The jobs that began in [`since`, `until`) together."""

    since: float
    until: float
    fleet: Fleet
    operators: tuple[HotOperator, ...] = ()


class NodesAnswer(Answer, frozen=True):
    """The machines, YARN's queues, and containers that running jobs wait for. `problem`: why YARN was not asked."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    waiting: tuple[Waiting, ...]
    problem: str = ""


class Problem(Struct, frozen=True, kw_only=True):
    """What was wrong; `status` is that of HTTP."""

    message: str
    status: int


class ErrorAnswer(Answer, frozen=True):
    """In place of any other answer."""

    error: Problem

"""The pages of one job."""

from collections.abc import Sequence
from typing import get_args

from flask import Blueprint, render_template
from msgspec import Struct

from afo.data.prepare.profile import DRIFTED, QUANTILES, FeatureProfile
from afo.errors import AfoError, UsageError
from afo.events.model_notes import not_evaluated
from afo.events.types import AnyEvent
from afo.job_dir.annotations import MOST_NOTES
from afo.protocol.profile_request import MAX_S
from afo_history_server.logs import log_files
from afo_history_server.model.job_history import AnyRecord, Attempt, FileProgress, JobHistory
from afo_history_server.model.text import event_task, event_type
from afo_history_server.store.job_store import JobStore
from afo_history_server.views.advice import advice
from afo_history_server.views.job_charts import job_charts
from afo_history_server.views.task_use import cores_line, cores_of, memory_line
from afo_history_server.views.timeline import timeline
from afo_history_server.web import query
from afo_history_server.web.serving import LiveServers, Serving

#: Attempts of tasks on a job's page; all of them are in the API.
MAX_ATTEMPTS = 500
#: Training files on a page.
_FILES = 200
#: Features on a page.
_FEATURES = 200
#: Events on a page.
_EVENTS = 50
#: Types that this version of afo writes; a job may hold others.
EVENT_TYPES = tuple(kind.__name__ for kind in get_args(AnyEvent))


class AskedFiles(Struct, frozen=True, kw_only=True):
    """Training files of the page that a request asks for, each with the newest pass over it; `total` on all pages."""

    job: JobHistory
    rows: tuple[tuple[str, FileProgress | None], ...]
    page: int
    pages: int
    total: int


class AskedEvents(Struct, frozen=True, kw_only=True):
    """Events of the page that a request asks for, newest first; `total` on all pages, `types` of all that are kept."""

    events: tuple[AnyRecord, ...]
    type: str
    task: str
    types: tuple[str, ...]
    page: int
    pages: int
    total: int


#: A job that trains and writes nothing for so long is spoken of; its Application Master does so every 30 s.
_SILENT_S = 90.0


#: Servings of a job's model on its page.
_SERVINGS = 20


def job_pages_blueprint(store: JobStore, servers: LiveServers) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("job", __name__, url_prefix="/jobs/<job_id>")

    @routes.get("")
    def overview(job_id: str) -> str:
        found, _ = store.job(job_id)
        now, over = store.clock(), query.over()
        shown, hidden = _select_attempts(found)
        am_attempts = log_files.am_attempts(store.files, store.paths(job_id))
        return render_template(
            "job.html", job=found, attempts=shown, hidden_attempts=hidden, am_attempts=am_attempts, now=now,
            timeline=timeline(found, now), charts=job_charts(found, over), over=over, advice=advice(found),
            max_profile_s=MAX_S, most_notes=MOST_NOTES, memory_line=memory_line, cores_line=cores_line,
            cores_of=cores_of, silent_s=_SILENT_S,
            not_evaluated=not_evaluated(found.not_evaluated), servings=_servings(store, servers, found),
        )  # fmt: skip

    @routes.get("/data")
    def data(job_id: str) -> str:
        asked = query_files(store, job_id)
        return render_template("data.html", job=asked.job, rows=asked.rows, page=asked.page, pages=asked.pages,
                               total=asked.total)  # fmt: skip

    @routes.get("/features")
    def features(job_id: str) -> str:
        found, _ = store.job(job_id)
        profile = store.features(job_id)
        rows = sorted(profile.features, key=_most_drifted) if profile else []
        pages = max(1, -(-len(rows) // _FEATURES))
        page = query.number("page", 1, 1, pages)
        return render_template(
            "features.html", job=found, profile=profile, page=page, pages=pages, drifted=DRIFTED,
            rows=rows[(page - 1) * _FEATURES : page * _FEATURES], quantiles=QUANTILES,
        )  # fmt: skip

    @routes.get("/settings")
    def settings(job_id: str) -> str:
        found, _ = store.job(job_id)
        return render_template("settings.html", job=found, settings=store.settings(job_id))

    @routes.get("/events")
    def events(job_id: str) -> str:
        found, newest = store.job(job_id)
        return render_template("events.html", job=found, kept=len(newest), asked=query_events(newest))

    return routes


def _servings(store: JobStore, servers: LiveServers, job: JobHistory) -> list[Serving]:
    """Of the model that it exports."""
    if not servers.now():
        return []
    try:
        exported = [each.value.strip('"') for each in store.settings(job.job_id) if each.path == "export.dir"]
    except AfoError:
        exported = []  # its page says elsewhere what cannot be read
    places = [*exported, store.paths(job.job_id).export]
    return servers.servings([job.name] if job.name else [], places)[:_SERVINGS]


def query_files(store: JobStore, job_id: str) -> AskedFiles:
    """Raises `UsageError`, `NotFound` and what `afo.storage` raises."""
    job, names, progress = store.job_and_files(job_id)
    pages = max(1, -(-len(names) // _FILES))
    page = query.number("page", 1, 1, pages)
    first = (page - 1) * _FILES
    rows = tuple((name, progress.get(row)) for row, name in enumerate(names[first : first + _FILES], first))
    return AskedFiles(job=job, rows=rows, page=page, pages=pages, total=len(names))


def query_events(newest: Sequence[AnyRecord]) -> AskedEvents:
    """Those of one type and of one task (`worker:0`), where the request names them. Raises `UsageError`."""
    query.require_known(("type", "task", "page"))
    kind, task = query.text("type"), query.text("task")
    here = sorted({event_type(record) for record in newest})
    if kind and kind not in (*here, *EVENT_TYPES):
        raise UsageError(f"type is {kind[:40]!r}; allowed are types of events, here {', '.join(here) or 'none'}")
    found = [record for record in newest if kind in ("", event_type(record)) and _is_of(record, task)]
    pages = max(1, -(-len(found) // _EVENTS))
    page = query.number("page", 1, 1, pages)
    return AskedEvents(
        events=tuple(found[(page - 1) * _EVENTS : page * _EVENTS]), type=kind, task=task,
        types=tuple(here), page=page, pages=pages, total=len(found),
    )  # fmt: skip


def _most_drifted(feature: FeatureProfile) -> tuple[float, str]:
    return -(feature.drift or 0.0), feature.name


def _is_of(record: AnyRecord, task: str) -> bool:
    named, _, _ = event_task(record).partition("/")
    return task in ("", named)


def _select_attempts(job: JobHistory) -> tuple[list[Attempt], int]:
    """Attempts for the page, failed ones before others if not all fit, and the number of those left out."""
    if len(job.attempts) <= MAX_ATTEMPTS:
        return list(job.attempts), 0
    first = sorted(job.attempts, key=lambda attempt: not attempt.failed)[:MAX_ATTEMPTS]
    return first, len(job.attempts) - MAX_ATTEMPTS

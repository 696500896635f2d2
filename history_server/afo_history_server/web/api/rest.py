"""Answers for programs: `/api/v1`, which describes itself in `/api/v1/openapi.json`, and `/metrics`."""

import msgspec
from flask import Blueprint, Response

from afo_history_server.logs import log_files
from afo_history_server.model.job_history import AnyRecord
from afo_history_server.model.newest_events import KEPT_EVENTS
from afo_history_server.model.text import event_fields
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.telemetry import CONTENT_TYPE, Telemetry
from afo_history_server.web import query
from afo_history_server.web.api import types as a
from afo_history_server.web.api.openapi import Described, Parameter, document
from afo_history_server.web.authentication import visible
from afo_history_server.web.fleet import query_fleet
from afo_history_server.web.job import query_files
from afo_history_server.web.logs import query_range
from afo_history_server.web.nodes import LiveCluster, query_cluster

PREFIX = "/api/v1"
_LIST = (
    Parameter("q", "string", "Words that all occur in the id, name, user, queue, cause, tags or notes."),
    Parameter("state", "string", "May be named several times."),
    Parameter("user", "string", "Who submitted it."),
    Parameter("queue", "string", "The queue that the job file names."),
    Parameter("cause", "string", "Why it ended."),
    Parameter("tag", "string", "`team` or `team=feeds`."),
    Parameter("since", "string", "A day, or a moment in UTC: jobs that began then or later."),
    Parameter("until", "string", "Jobs that began before; a day is included."),
    Parameter("column", "string", "`metrics.auc`, `params.data.batch_size`, `tags.team`; several times for several."),
    Parameter("sort", "string", "What the list is sorted by, also a column; `began` if left out."),
    Parameter("order", "string", "`desc`, if left out, or `asc`."),
    Parameter("page", "integer", "From 1."),
    Parameter("size", "integer", "Jobs on a page, at most 500."),
)
_LOG = (
    Parameter("offset", "integer", "Byte; the end of the log if left out."),
    Parameter("length", "integer", "The lines that begin in so many bytes, at most 1 MiB."),
)
_FLEET = (
    Parameter("since", "string", "A day, or a moment in UTC; a week before `until` if left out."),
    Parameter("until", "string", "A day, which is included, or a moment; now if left out."),
    Parameter("by", "string", "`user`, `queue`, `name` or `tag:NAME`."),
)
_REASON = (Parameter("reason", "string", "Kept with the job, or in the server's log; at most 500 characters."),)
_ANNOTATE = (
    Parameter("notes", "string", "Left out: as they are."),
    Parameter("tags", "string", "One `key=value` a line, all that it is to have. Left out: as they are."),
    Parameter("version", "string", "Refused if somebody has changed them since; left out: not looked at."),
)
_PROFILE = (
    Parameter("task", "string", "One that runs, like `worker:0`."),
    Parameter("seconds", "number", "10 if left out."),
)
_PAGE = (Parameter("page", "integer", "From 1."),)
_LIMIT = (Parameter("limit", "integer", f"At most {KEPT_EVENTS}."),)
_JOB, _A_LOG = "/jobs/{job_id}", "/jobs/{job_id}/logs/{task}/{attempt}/{stream}"
#: All of them; the routes below are held to it by a test.
DESCRIBED = (
    Described(f"{PREFIX}/jobs", "Jobs, running and ended.", a.JobsAnswer, _LIST),
    Described(f"{PREFIX}{_JOB}", "A job and its tasks.", a.JobAnswer),
    Described(f"{PREFIX}{_JOB}/events", "What happened, newest first.", a.EventsAnswer, _LIMIT),
    Described(f"{PREFIX}{_JOB}/files", "How far each training file was applied.", a.FilesAnswer, _PAGE),
    Described(f"{PREFIX}{_JOB}/settings", "The job as submitted.", a.SettingsAnswer),
    Described(f"{PREFIX}{_A_LOG}", "Lines of a log.", a.LogAnswer, _LOG),
    Described(f"{PREFIX}/fleet", "All jobs of a time together.", a.FleetAnswer, _FLEET),
    Described(f"{PREFIX}/nodes", "The machines now, and who waits for room.", a.NodesAnswer),
    Described(f"{PREFIX}{_JOB}/kill", "End a running job; needs the token.", a.ActionAnswer, (), "post", _REASON),
    Described(f"{PREFIX}{_JOB}/checkpoint", "Have it save; needs the token.", a.ActionAnswer, (), "post"),
    Described(f"{PREFIX}{_JOB}/profile", "Profile a task; needs the token.", a.ActionAnswer, (), "post", _PROFILE),
    Described(f"{PREFIX}{_JOB}/annotate", "Notes and tags; needs the token.", a.ActionAnswer, (), "post", _ANNOTATE),
    Described(f"{PREFIX}{_JOB}/delete", "Remove an ended job; needs the token.", a.ActionAnswer, (), "post", _REASON),
)


def json_response(answer: a.Answer, status: int = 200) -> Response:
    """An answer as JSON."""
    return Response(msgspec.json.encode(answer), status, mimetype="application/json")


def api_blueprint(store: JobStore, cluster: LiveCluster) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("api", __name__, url_prefix=PREFIX)

    @routes.get("/openapi.json")
    def description() -> Response:
        return Response(msgspec.json.encode(document(DESCRIBED)), mimetype="application/json")

    @routes.get("/jobs")
    def jobs() -> Response:
        return json_response(query.page_of(visible(store.jobs()), query.job_query()))

    @routes.get("/jobs/<job_id>")
    def job(job_id: str) -> Response:
        query.require_known(())
        return json_response(a.JobAnswer(job=store.job(job_id)[0]))

    @routes.get("/jobs/<job_id>/events")
    def events(job_id: str) -> Response:
        query.require_known(("limit",))
        limit = query.number("limit", KEPT_EVENTS, 1, KEPT_EVENTS)
        job, newest = store.job(job_id)
        shown = tuple(_record(record) for record in newest[:limit])
        return json_response(a.EventsAnswer(job_id=job_id, total=job.events_total, events=shown))

    @routes.get("/jobs/<job_id>/files")
    def files(job_id: str) -> Response:
        query.require_known(("page",))
        asked = query_files(store, job_id)
        found = tuple(a.TrainingFile(url=url, progress=progress) for url, progress in asked.rows)
        return json_response(
            a.FilesAnswer(job_id=job_id, files=found, page=asked.page, pages=asked.pages, total=asked.total)
        )

    @routes.get("/jobs/<job_id>/settings")
    def settings(job_id: str) -> Response:
        query.require_known(())
        store.job(job_id)
        return json_response(a.SettingsAnswer(job_id=job_id, settings=store.settings(job_id)))

    @routes.get("/jobs/<job_id>/logs/<task>/<attempt>/<stream>")
    def log(job_id: str, task: str, attempt: str, stream: str) -> Response:
        part, _ = query_range(store, job_id, log_files.log_name(task, attempt, stream))
        return json_response(a.LogAnswer(**msgspec.structs.asdict(part)))

    @routes.get("/nodes")
    def nodes() -> Response:
        asked = query_cluster(store, cluster)
        return json_response(a.NodesAnswer(**msgspec.structs.asdict(asked.view), problem=asked.seen.problem))

    @routes.get("/fleet")
    def fleet() -> Response:
        asked = query_fleet(store)
        return json_response(
            a.FleetAnswer(since=asked.since, until=asked.until, fleet=asked.fleet, operators=asked.operators)
        )

    return routes


def metrics_blueprint(store: JobStore, telemetry: Telemetry) -> Blueprint:
    """What Prometheus asks for: this server's numbers, and where those of running jobs are (`http_sd_configs`)."""
    routes = Blueprint("metrics", __name__)

    @routes.get("/metrics")
    def metrics() -> Response:
        store.jobs()
        return Response(telemetry.text(), content_type=CONTENT_TYPE)

    @routes.get("/metrics/jobs")
    def targets() -> Response:
        running = (job for job in visible(store.jobs()).jobs if job.metrics_address)
        found = [{"targets": [job.metrics_address], "labels": {"job_id": job.job_id, "name": job.name,
                                                               "user": job.user, "queue": job.queue}}
                 for job in running]  # fmt: skip
        return Response(msgspec.json.encode(found), mimetype="application/json")

    return routes


def _record(record: AnyRecord) -> a.EventRecord:
    return a.EventRecord(
        v=record.v, seq=record.seq, am_attempt=record.am_attempt, incarnation=record.incarnation, time=record.time,
        event=event_fields(record),
    )  # fmt: skip

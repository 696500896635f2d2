"""Answers for programs: `/api/v1`, and `/metrics`. Fields may be added under v1, none is renamed or removed.

Times are seconds since 1970, memory of attempts in MiB, `peak_rss` in bytes.
"""

import msgspec
from flask import Blueprint, Response

from afo_history_server import query
from afo_history_server.job_history import KEPT_EVENTS, AnyRecord
from afo_history_server.job_store import JobStore
from afo_history_server.paging import requested_page
from afo_history_server.telemetry import CONTENT_TYPE, Telemetry
from afo_history_server.words import event_fields

API = "afo/v1"
PREFIX = "/api/v1"


def json_response(fields: dict[str, object], status: int = 200) -> Response:
    """One object that begins with the version."""
    return Response(msgspec.json.encode({"api": API, **fields}), status, mimetype="application/json")


def api_blueprint(store: JobStore, telemetry: Telemetry) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("api", __name__)

    @routes.get(f"{PREFIX}/jobs")
    def jobs() -> Response:
        return json_response(msgspec.structs.asdict(requested_page(store.jobs())))

    @routes.get(f"{PREFIX}/jobs/<job_id>")
    def job(job_id: str) -> Response:
        return json_response({"job": store.job(job_id)[0]})

    @routes.get(f"{PREFIX}/jobs/<job_id>/events")
    def events(job_id: str) -> Response:
        limit = query.number("limit", KEPT_EVENTS, 1, KEPT_EVENTS)
        job, newest = store.job(job_id)
        shown = [_record(record) for record in newest[:limit]]
        return json_response({"job_id": job_id, "total": job.events_total, "events": shown})

    @routes.get("/metrics")
    def metrics() -> Response:
        store.jobs()
        return Response(telemetry.text(), content_type=CONTENT_TYPE)

    return routes


def _record(record: AnyRecord) -> dict[str, object]:
    place = {name: getattr(record, name) for name in ("v", "seq", "am_attempt", "incarnation", "time")}
    return {**place, "event": event_fields(record)}

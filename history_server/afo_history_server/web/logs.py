"""The pages of a log, its download, and what finds a place in it."""

import datetime

from flask import Blueprint, Response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from afo.errors import UsageError
from afo_history_server.logs import log_files, log_search
from afo_history_server.logs.log_files import LogName
from afo_history_server.logs.log_range import MAX_RANGE, RANGE, LogRange, read_range
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import query

_MAX_OFFSET = 1 << 50
_PATH = "/jobs/<job_id>/logs/<task>/<attempt>/<stream>"


def log_pages_blueprint(store: JobStore) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("logs", __name__)

    def url(job_id: str, name: LogName) -> str:
        return name.url(store.paths(job_id))

    @routes.get(_PATH)
    def log(job_id: str, task: str, attempt: str, stream: str) -> str:
        name = log_files.log_name(task, attempt, stream)
        part, length = query_range(store, job_id, name)
        follows = "offset" not in request.args and not store.job(job_id)[0].ended
        return render_template(
            "log.html", job_id=job_id, log=name, part=part, length=length, follows=follows, errors=log_search.ERRORS
        )

    @routes.get(f"{_PATH}/search")
    def search(job_id: str, task: str, attempt: str, stream: str) -> str:
        query.require_known(("q", "errors", "before"))
        name = log_files.log_name(task, attempt, stream)
        errors, text = query.word("errors", "", ("", "1")), query.text("q")
        if not (errors or text):
            raise UsageError("q is empty; allowed is a text to look for, or errors=1")
        wanted = log_search.ERRORS if errors else log_search.words(text)
        size = store.files.info(url(job_id, name)).size
        with store.files.open(url(job_id, name)) as file:
            found = log_search.search(file, query.number("before", size, 0, _MAX_OFFSET), size, wanted)
        return render_template("log_search.html", job_id=job_id, log=name, found=found, text=text, errors=errors)

    @routes.get(f"{_PATH}/at")
    def at(job_id: str, task: str, attempt: str, stream: str) -> AnyResponse:
        query.require_known(("time",))
        name = log_files.log_name(task, attempt, stream)
        moment = query.moment("time")
        if moment is None:
            raise UsageError("time is empty; allowed is a moment like 2026-11-20T08:15:00 (UTC)")
        info = store.files.info(url(job_id, name))
        year = datetime.datetime.fromtimestamp(info.modified, datetime.UTC).year
        with store.files.open(url(job_id, name)) as file:
            place = log_search.place_of_time(file, info.size, moment, year)
        if place >= info.size:
            return redirect(url_for("logs.log", **request.view_args or {}))
        return redirect(f"{url_for('logs.log', **request.view_args or {}, offset=place)}#b{place}")

    @routes.get(f"{_PATH}/download")
    def download(job_id: str, task: str, attempt: str, stream: str) -> Response:
        name = log_files.log_name(task, attempt, stream)
        file = store.files.open(url(job_id, name))
        response = Response(log_files.whole(file), content_type="text/plain; charset=utf-8")
        response.call_on_close(file.close)  # a request for the head alone reads nothing
        response.headers["Content-Disposition"] = f'attachment; filename="{name.file_name(job_id)}"'
        return response

    return routes


def query_range(store: JobStore, job_id: str, name: LogName) -> tuple[LogRange, int]:
    """The part of a log that the request asks for, and how many bytes it wanted; the log's end without an offset.

    Raises `UsageError` and what `afo.storage` raises.
    """
    query.require_known(("offset", "length"))
    length = query.number("length", RANGE, 1, MAX_RANGE)
    start = query.number("offset", -1, 0, _MAX_OFFSET)
    return read_range(store.files, name.url(store.paths(job_id)), start if start >= 0 else None, length), length

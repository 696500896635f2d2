"""The pages for people."""

from flask import Blueprint, Response, render_template

from afo_history_server import query, task_logs
from afo_history_server.job_history import Attempt, JobHistory
from afo_history_server.job_store import JobStore
from afo_history_server.paging import requested_page

#: Attempts of tasks on a job's page; all of them are in the API.
MAX_ATTEMPTS = 500
_MAX_OFFSET = 1 << 50


def pages_blueprint(store: JobStore) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("pages", __name__)

    @routes.get("/")
    def jobs() -> str:
        return render_template("jobs.html", page=requested_page(store.jobs()), root=store.files.root, now=store.clock())

    @routes.get("/jobs/<job_id>")
    def job(job_id: str) -> str:
        found, newest = store.job(job_id)
        shown, hidden = _shown(found)
        am_attempts = task_logs.am_attempts(store.files, store.paths(job_id))
        return render_template(
            "job.html", job=found, events=newest, attempts=shown, hidden_attempts=hidden, am_attempts=am_attempts,
            now=store.clock(),
        )  # fmt: skip

    @routes.get("/jobs/<job_id>/logs/<task>/<attempt>/<stream>")
    def log(job_id: str, task: str, attempt: str, stream: str) -> str:
        name = task_logs.log_name(task, attempt, stream)
        length = query.number("length", task_logs.RANGE, 1, task_logs.MAX_RANGE)
        start = query.number("offset", -1, 0, _MAX_OFFSET)
        part = task_logs.read_range(store.files, name.url(store.paths(job_id)), start if start >= 0 else None, length)
        return render_template("log.html", job_id=job_id, log=name, part=part, length=length)

    @routes.get("/jobs/<job_id>/logs/<task>/<attempt>/<stream>/download")
    def download(job_id: str, task: str, attempt: str, stream: str) -> Response:
        name = task_logs.log_name(task, attempt, stream)
        file = store.files.open(name.url(store.paths(job_id)))
        response = Response(task_logs.whole(file), content_type="text/plain; charset=utf-8")
        response.call_on_close(file.close)  # a request for the head alone reads nothing
        response.headers["Content-Disposition"] = f'attachment; filename="{name.file_name(job_id)}"'
        return response

    return routes


def _shown(job: JobHistory) -> tuple[list[Attempt], int]:
    """Attempts for the page, failed ones before others if not all fit, and the number of those left out."""
    if len(job.attempts) <= MAX_ATTEMPTS:
        return list(job.attempts), 0
    first = sorted(job.attempts, key=lambda each: not each.failed)[:MAX_ATTEMPTS]
    return first, len(job.attempts) - MAX_ATTEMPTS

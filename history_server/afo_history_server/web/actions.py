"""The buttons of a job's page, and the same for programs that hold the token."""

import re

from flask import Blueprint, Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from afo.errors import UsageError
from afo_history_server.maintenance.job_actions import JobActions, Order
from afo_history_server.store.job_store import JobStore
from afo_history_server.web.api import types as a
from afo_history_server.web.api.rest import PREFIX, json_response
from afo_history_server.web.authentication import access_of_app, check_form, viewer

ACTIONS = ("kill", "checkpoint", "profile", "annotate", "delete")
_MAX_REASON = 500


def _seconds() -> float:
    """Of a profile; 10 if the form says nothing. Raises `UsageError`."""
    given = request.form.get("seconds", "10")
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", given):
        raise UsageError(f"seconds is {given[:40]!r}; allowed is a number")
    return float(given)


def actions_blueprint(store: JobStore, actions: JobActions) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("actions", __name__)

    def act(job_id: str, action: str) -> None:
        check_form()
        job, _ = store.job(job_id)
        access_of_app().check_modify(viewer(), job_id, job.user, job.acls)
        reason = request.form.get("reason", "").strip() or "requested in the history server"
        if len(reason) > _MAX_REASON:
            raise UsageError(f"reason has {len(reason)} characters; allowed are {_MAX_REASON}")
        task = request.form.get("task", "")
        order = Order(
            job=job, user=viewer().name, reason=reason, task=task, seconds=_seconds(), notes=request.form.get("notes"),
            tags=request.form.get("tags"), version=request.form.get("version", ""),
        )  # fmt: skip
        getattr(actions, action)(order)

    def from_page(job_id: str, action: str) -> AnyResponse:
        act(job_id, action)
        gone = action == "delete"
        return redirect(url_for("pages.jobs") if gone else url_for("job.overview", job_id=job_id, asked=action), 303)

    def from_program(job_id: str, action: str) -> Response:
        act(job_id, action)
        return json_response(a.ActionAnswer(job_id=job_id, action=action), 202)

    for action in ACTIONS:
        for prefix, answer in (("", from_page), (PREFIX, from_program)):
            routes.add_url_rule(
                f"{prefix}/jobs/<job_id>/{action}", f"{action}_{answer.__name__}", answer, methods=["POST"],
                defaults={"action": action},
            )  # fmt: skip
    return routes

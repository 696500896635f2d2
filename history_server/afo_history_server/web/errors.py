"""Errors as answers: a page for people, an object for programs; never a traceback."""

import logging

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, UsageError
from afo_history_server.web.api.rest import PREFIX, json_response
from afo_history_server.web.api.types import ErrorAnswer, Problem

_STATUS: tuple[tuple[type[AfoError], int], ...] = (
    (NotFound, 404),
    (UsageError, 400),
    (PermissionDenied, 403),
    (ClusterUnreachable, 503),
)
_TITLES = {
    401: "Who are you?",
    400: "That is no valid request",
    403: "Not allowed",
    404: "Not found",
    405: "That cannot be done here",
    503: "The file system does not answer",
}
_LOG = logging.getLogger(__name__)


def answer_problems(app: Flask) -> None:
    """Register the handlers."""
    app.register_error_handler(AfoError, _of_afo)
    app.register_error_handler(HTTPException, _of_http)
    app.register_error_handler(Exception, _of_bug)


def _of_afo(error: AfoError) -> Response:
    return _answer(next((status for kind, status in _STATUS if isinstance(error, kind)), 502), str(error))


def _of_http(error: HTTPException) -> Response:
    response = _answer(error.code or 500, error.description or error.name)
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _of_bug(error: Exception) -> Response:
    _LOG.error("request %r failed", request.path, exc_info=error)
    return _answer(500, "A bug in the history server; its own log says more.")


def _answer(status: int, message: str) -> Response:
    if request.path.startswith(f"{PREFIX}/"):
        return json_response(ErrorAnswer(error=Problem(message=message, status=status)), status)
    title = _TITLES.get(status, "Something went wrong")
    return Response(render_template("problem.html", title=title, message=message), status, mimetype="text/html")

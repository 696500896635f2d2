"""TensorBoard in the browser: the way to one, and the proxy in front of it."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from afo_history_server.maintenance.tensorboards import Board, Shown, TensorBoards
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import query
from afo_history_server.web.origins import Origin, names
from afo_history_server.web.proxy import forward

#: Jobs in one TensorBoard.
MAX_JOBS = 20
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def tensorboard_blueprint(store: JobStore, boards: TensorBoards) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("tensorboard", __name__)
    #: Only an address that a page of this server holds starts a TensorBoard; another site cannot make one up.
    secret = secrets.token_bytes(32)

    def proof_of(jobs: str) -> str:
        return hmac.new(secret, jobs.encode(), hashlib.sha256).hexdigest()[:32]

    @routes.get("/tensorboard")
    def begin() -> AnyResponse:
        query.require_known(("job",))
        wanted = sorted(query.job_ids(1, MAX_JOBS))
        jobs = ",".join(store.paths(job_id).job_id for job_id in wanted)
        for job_id in wanted:
            store.job(job_id)  # it has to be there
        path = url_for("tensorboard.proxied", proof=proof_of(jobs), jobs=jobs, rest="")
        return redirect(Origin.of_request().elsewhere(names().tensorboard) + path)

    @routes.route("/tb/<proof>/<jobs>/", defaults={"rest": ""}, methods=METHODS)
    @routes.route("/tb/<proof>/<jobs>/<path:rest>", methods=METHODS)
    def proxied(proof: str, jobs: str, rest: str) -> AnyResponse:
        if not hmac.compare_digest(proof.encode(), proof_of(jobs).encode()):
            abort(404, "This address of a TensorBoard is an old one. Open it from the job's page.")
        prefix = f"/tb/{proof}/{jobs}"
        board = boards.use(jobs, prefix, lambda: tuple(_list_shown(store, jobs.split(","))))
        if not board.port:
            return _not_yet(boards, board, whole_page=not rest)
        try:
            return forward(request, board.port)
        except OSError:
            return _not_yet(boards, board, whole_page=not rest)

    return routes


def _list_shown(store: JobStore, jobs: Iterable[str]) -> Iterable[Shown]:
    for job_id in jobs:
        found, _ = store.job(job_id)
        name = "".join(
            character if character.isalnum() or character in "-_. " else "_" for character in found.name
        ).strip(". ")
        yield Shown(f"{name[:60]} {job_id}".strip(), store.paths(job_id).summaries)


def _not_yet(boards: TensorBoards, board: Board, *, whole_page: bool) -> Response:
    """A page that asks again by itself, or why there is none; a part of one just fails."""
    if not whole_page:
        return Response("TensorBoard does not run.", 503, mimetype="text/plain")
    ended = board.ended  # it may end while the page is made
    page = render_template("tensorboard.html", ended=ended, title=board.title)
    if ended:
        boards.forget(board)
    return Response(page, 503 if ended else 202, headers={} if ended else {"Refresh": "1"})

"""Authentication of requests; those of unknown users are turned away where that matters."""

import hmac
import re
import secrets

from flask import Blueprint, Flask, abort, current_app, g, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response as AnyResponse

from afo_history_server.model.job_history import JobHistory
from afo_history_server.store.job_index import JobList
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import query
from afo_history_server.web.access import Access, Viewer

#: Seconds for which a browser stays signed in, at most as long as the server runs.
_SESSION_S = 12 * 3600
#: The header by which a reverse proxy proves itself.
PROXY_SECRET = "X-Afo-Proxy-Secret"
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")
#: Endpoints for everybody: they show nothing of any job.
FOR_EVERYBODY = ("static", "signing_in.sign_in", "signing_in.begin")
_ACCESS, _STORE = "afo_access", "afo_access_store"


def know_viewers(app: Flask, access: Access, store: JobStore) -> None:
    """Every request of `app` gets a viewer, and none is answered without the right to see what it names."""
    app.secret_key = secrets.token_bytes(32)
    app.config.update(
        # Cookies do not know ports: another server on this machine must not overwrite this one's.
        SESSION_COOKIE_NAME=f"afo-{secrets.token_hex(4)}", SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=access.site.https, PERMANENT_SESSION_LIFETIME=_SESSION_S,
    )  # fmt: skip
    app.extensions |= {_ACCESS: access, _STORE: store}
    app.before_request(_identify)
    app.before_request(_check)
    app.register_blueprint(_routes())
    app.context_processor(_for_templates)


def access_of_app() -> Access:
    """The rules of the present application."""
    found: Access = current_app.extensions[_ACCESS]
    return found


def viewer() -> Viewer:
    """Who makes the present request."""
    found: Viewer = g.get("viewer", Viewer())
    return found


def visible(jobs: JobList) -> JobList:
    """The part of the list that the present viewer may see."""
    return access_of_app().visible(jobs, viewer())


def may_modify(job: JobHistory) -> bool:
    """May the present viewer act on the job?"""
    return access_of_app().may_modify(viewer(), job.user, job.acls)


def csrf_token(path: str) -> str:
    """What a form that posts to `path` has to hold: no other site can know it."""
    key = current_app.secret_key
    assert isinstance(key, bytes)
    return hmac.new(key, f"{viewer().name}\0{path}".encode(), "sha256").hexdigest()


def check_form() -> None:
    """Abort with 401 or 403 unless the present POST was made from a page of this server, or with the token."""
    if not viewer().known:
        abort(401, _HOW[access_of_app().site.auth])
    if viewer().by_token:
        return
    origin = request.headers.get("Origin", "")
    if origin and origin.partition("://")[2] != request.host:
        abort(403, "This request comes from a page of another site.")
    if not hmac.compare_digest(request.form.get("csrf", "").encode(), csrf_token(request.path).encode()):
        abort(403, "This form is an old one, or not of this server. Open the job's page again.")


_HOW = {
    "none": "Sign in first: `afo history login` prints the address.",
    "token": "Sign in first: `afo history login`, on the machine where the server runs, prints the address.",
    "proxy": "The reverse proxy in front of this server did not say who you are.",
}


def _for_templates() -> dict[str, object]:
    by_session = access_of_app().site.auth != "proxy" and not viewer().by_token
    return {"viewer": viewer(), "by_session": by_session, "csrf": csrf_token, "may_modify": may_modify}


def _identify() -> None:
    access = access_of_app()
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind == "Bearer" and (by_token := access.viewer_of_token(token.strip())):
        g.viewer = by_token
    elif access.site.auth == "proxy":
        name = request.headers.get(access.site.user_header, "")
        # From elsewhere the header is anybody's word.
        trusted = access.is_proxy(request.remote_addr or "", request.headers.get(PROXY_SECRET, ""))
        g.viewer = access.viewer_of_name(name) if trusted and _USER.fullmatch(name) else Viewer()
    else:
        g.viewer = access.viewer_of_name(name) if (name := session.get("user", "")) else Viewer()


def _check() -> None:
    access = access_of_app()
    if access.open or request.endpoint in FOR_EVERYBODY:
        return
    if not viewer().known:
        abort(401, _HOW[access.site.auth])
    store: JobStore = current_app.extensions[_STORE]
    given = request.view_args or {}
    named = [given.get("job_id", ""), *given.get("jobs", "").split(","), *request.args.getlist("job")]
    access.check_view(viewer(), (store.rights(job_id) for job_id in named if job_id))


def _routes() -> Blueprint:
    routes = Blueprint("signing_in", __name__)

    @routes.get("/login")
    def begin() -> AnyResponse | str:
        query.require_known(("token",))
        return _sign_in(token) if (token := request.args.get("token", "")) else render_template("login.html")

    @routes.post("/login")
    def sign_in() -> AnyResponse:
        return _sign_in(request.form.get("token", ""))

    @routes.post("/logout")
    def sign_out() -> AnyResponse:
        check_form()
        session.clear()
        return redirect(url_for("pages.jobs"), 303)

    return routes


def _sign_in(token: str) -> AnyResponse:
    found = access_of_app().viewer_of_token(token)
    if found is None:
        abort(403, "That is not the token of this server. It changes with each start: `afo history login` prints it.")
    session.clear()
    session.permanent = True
    session["user"] = found.name
    return redirect(url_for("pages.jobs"), 303)

"""What protects a server without authentication: where it listens, whom it answers, what a page of it may do."""

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from afo.errors import Unsupported
from afo_history_server.origins import PAGES_HOST, TENSORBOARD_HOST, Origin

LOOPBACK = "127.0.0.1"
#: What TensorBoard's own answers have as well.
EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGES = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}


def checked_address(host: str) -> str:
    """The address to listen on. Raises `Unsupported` for any but the loopback address."""
    if host != LOOPBACK:
        raise Unsupported(
            f"the history server listens on {LOOPBACK} only, not on {host!r}: it shows every job to everybody who can "
            f"connect, and authentication comes with a later version. From another machine: "
            f"ssh -L 18089:{LOOPBACK}:18089 THIS_MACHINE"
        )
    return host


def protect(app: Flask) -> None:
    """Check every request and mark every response of `app`."""
    app.before_request(_check_host)
    app.after_request(_mark)


def _check_host() -> AnyResponse | None:
    # A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding) and would then be allowed to
    # read the answers; its requests still carry that name.
    origin = Origin.of_request()
    if origin.host not in (PAGES_HOST, TENSORBOARD_HOST):
        abort(403, f"This server answers only to {PAGES_HOST} and {TENSORBOARD_HOST}.")
    wanted = TENSORBOARD_HOST if _is_tensorboard() else PAGES_HOST
    if origin.host == wanted or request.path.startswith("/static/"):
        return None
    if request.method not in ("GET", "HEAD"):
        abort(403, f"This answers only under {origin.elsewhere(wanted)}.")
    return redirect(origin.elsewhere(wanted) + request.full_path.rstrip("?"))


def _is_tensorboard() -> bool:
    return request.path.startswith("/tb/")


def _mark(response: Response) -> Response:
    for header, value in EVERYWHERE.items():
        response.headers[header] = value
    # TensorBoard says itself what its pages may do.
    for header, value in PAGES.items():
        if header not in response.headers or not _is_tensorboard():
            response.headers[header] = value
    response.headers.setdefault("Cache-Control", "no-store")
    return response

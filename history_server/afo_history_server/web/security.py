"""Security headers and names: under which ones the server answers, what a page of it may do."""

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from afo_history_server.web.origins import Origin, names, target

#: What TensorBoard's own answers have as well.
EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGES = {
    # The form that leads to TensorBoard is answered with a way to the other name, which browsers check as well.
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self' {tensorboard}:*; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}


def protect(app: Flask) -> None:
    """Check every request and mark every response of `app`."""
    app.before_request(_check_host)
    app.after_request(_mark)


def _check_host() -> AnyResponse | None:
    # A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding) and would then be allowed to
    # read the answers; its requests still carry that name.
    origin, ours = Origin.of_request(), names()
    if origin.host not in (ours.pages, ours.tensorboard):
        abort(403, f"This server answers only to {ours.pages} and {ours.tensorboard}.")
    wanted = ours.tensorboard if _is_tensorboard() else ours.pages
    if origin.host == wanted or request.path.startswith("/static/"):
        return None
    if request.method not in ("GET", "HEAD"):
        abort(403, f"This answers only under {origin.elsewhere(wanted)}.")
    return redirect(origin.elsewhere(wanted) + target(request))


def _is_tensorboard() -> bool:
    return request.path.startswith("/tb/")


def _mark(response: Response) -> Response:
    for header, value in EVERYWHERE.items():
        response.headers[header] = value
    # TensorBoard says itself what its pages may do.
    for header, value in PAGES.items():
        if header not in response.headers or not _is_tensorboard():
            response.headers[header] = value.format(tensorboard=names().tensorboard)
    response.headers.setdefault("Cache-Control", "no-store")
    return response

"""What protects a server without authentication: where it listens, whom it answers, what a page of it may do."""

from flask import Flask, Response, abort, request

from afo.errors import Unsupported

LOOPBACK = "127.0.0.1"
#: Names under which this machine's own browser reaches the server; any port, for `ssh -L`.
ALLOWED_HOSTS = frozenset({LOOPBACK, "localhost"})
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
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


def _check_host() -> None:
    # A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding) and would then be allowed to
    # read the answers; its requests still carry that name.
    name, _, port = request.headers.get("Host", "").lower().rpartition(":")
    if not (name and port.isdigit()):
        name = request.headers.get("Host", "").lower()
    if name not in ALLOWED_HOSTS:
        abort(403, "This server answers only to 127.0.0.1 and localhost.")


def _mark(response: Response) -> Response:
    for header, value in HEADERS.items():
        response.headers[header] = value
    response.headers.setdefault("Cache-Control", "no-store")
    return response

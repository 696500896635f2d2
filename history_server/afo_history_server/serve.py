"""The application behind waitress."""

import signal
import sys
from pathlib import Path

from waitress import create_server  # type: ignore[import-untyped]  # it comes without types

from afo.errors import UsageError
from afo_history_server.app import JOBS, close_app, create_app
from afo_history_server.refresher import Refresher
from afo_history_server.security import checked_address

_THREADS = 8
#: Seconds after which a connection without traffic is closed, and open connections at most.
_IDLE_S = 60
_CONNECTIONS = 200


def serve(root: str, host: str, port: int, index: Path | None = None) -> None:
    """Print the address once connections are taken, then answer until SIGTERM or SIGINT.

    `index`: see `create_app`. Raises `Unsupported` for an address that others could reach, `UsageError` for a port
    that is taken.
    """
    address = checked_address(host)
    app = create_app(root, index=index)
    try:
        server = create_server(
            app, host=address, port=port, threads=_THREADS, channel_timeout=_IDLE_S,
            connection_limit=_CONNECTIONS, max_request_body_size=1 << 20, ident=None,
            clear_untrusted_proxy_headers=True,
        )  # fmt: skip
    except OSError as error:
        what = f"cannot listen on {address}:{port}: {error.strerror}; name another port with --port"
        raise UsageError(what) from error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"http://{address}:{server.effective_port}/", flush=True)
    try:
        with Refresher(app.extensions[JOBS]):
            server.run()
    finally:
        close_app(app)

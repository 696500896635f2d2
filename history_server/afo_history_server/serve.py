"""The application behind waitress."""

import signal
import sys
from pathlib import Path

from waitress import create_server  # type: ignore[import-untyped]  # it comes without types

from afo.config import user_name
from afo.errors import UsageError
from afo.history_site import HistorySite
from afo_history_server.access import Access
from afo_history_server.app import JOBS, close_app, create_app
from afo_history_server.refresher import Refresher

_THREADS = 8
#: Seconds after which a connection without traffic is closed, and open connections at most.
_IDLE_S = 60
_CONNECTIONS = 200


def serve(root: str, port: int, site: HistorySite, index: Path | None = None, token: str = "") -> None:
    """Print the address once connections are taken, then answer until SIGTERM or SIGINT.

    `index`: see `create_app`. `token`: see `Access`. Raises `UsageError` for a port that is taken.
    """
    address = site.listen
    app = create_app(root, index=index, access=Access(site, user_name(), token))
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
    print(f"http://{site.name or address}:{server.effective_port}/", flush=True)
    try:
        with Refresher(app.extensions[JOBS]):
            server.run()
    finally:
        close_app(app)

"""The application behind waitress."""

import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from flask import Flask
from waitress import create_server  # type: ignore[import-untyped]  # it comes without types
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]

from afo.errors import PermissionDenied, UsageError
from afo.rpc.wire import read_secret
from afo.site.config import user_name
from afo.site.history import HistorySite
from afo.yarn import resource_manager
from afo_history_server.maintenance.lost_jobs import LostJobs
from afo_history_server.maintenance.periodic import Periodic
from afo_history_server.maintenance.retention import Retention
from afo_history_server.store.job_store import JobStore
from afo_history_server.web.access import Access
from afo_history_server.web.app import JOBS, close_app, create_app

_THREADS = 8
#: Seconds between two scans, two looks for vanished jobs, and two for old ones.
_SCAN_S, _CLOSE_S, _KEEP_S = 1.0, 60.0, 3600.0
#: Seconds in which a request has to come and after which an idle connection is closed, and open connections at most.
_IDLE_S = 60
_CONNECTIONS = 200


def serve(root: str, port: int, site: HistorySite, index: Path | None = None, token: str = "") -> None:
    """Print the address once connections are taken, then answer until SIGTERM or SIGINT.

    `index`: see `create_app`. `token`: see `Access`. Raises `UsageError` for a port that is taken, and as
    `proxy_secret`.
    """
    address = site.listen
    app = create_app(root, index=index, access=Access(site, user_name(), token, proxy_secret(site)))
    server = listening(app, address, port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"http://{site.name or address}:{server.effective_port}/", flush=True)
    try:
        with ExitStack() as until_the_end:
            for periodic in _by_itself(app.extensions[JOBS], site):
                until_the_end.enter_context(periodic)
            server.run()
    finally:
        close_app(app)


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that counts as idle from a request's first byte to its last: a byte now and then holds none."""

    last_activity: float

    def handle_read(self) -> None:
        """Take in what has come."""
        begun = time.time() if self.request is None else self.last_activity
        super().handle_read()
        if self.request is not None:
            self.last_activity = begun


def listening(app: Flask, address: str, port: int) -> TcpWSGIServer:
    """The server, which answers once it is run. Raises `UsageError` for a port that is taken."""
    try:
        server = create_server(
            app, host=address, port=port, threads=_THREADS, channel_timeout=_IDLE_S,
            connection_limit=_CONNECTIONS, max_request_body_size=1 << 20, ident=None,
            clear_untrusted_proxy_headers=True,
        )  # fmt: skip
    except OSError as error:
        what = f"cannot listen on {address}:{port}: {error.strerror}; name another port with --port"
        raise UsageError(what) from error
    server.channel_class = _Channel
    return server


def proxy_secret(site: HistorySite) -> str:
    """What reverse proxies of the site send; '' where it names none.

    Raises `PermissionDenied` for a file that cannot be read, and for one that everybody on this machine can read.
    """
    if not site.proxy_secret_file:
        return ""
    secret = read_secret(site.proxy_secret_file)
    if os.stat(site.proxy_secret_file).st_mode & stat.S_IROTH:
        raise PermissionDenied(f"everybody on this machine can read {site.proxy_secret_file}: chmod o-r")
    return secret


def _by_itself(store: JobStore, site: HistorySite) -> Iterator[Periodic]:
    lost = LostJobs(store, lambda: resource_manager.from_configuration(user_name()))
    yield Periodic(store.refresh, "the list of jobs", _SCAN_S)
    yield Periodic(lost.close_all, "closing vanished jobs", _CLOSE_S, _CLOSE_S)
    yield Periodic(Retention(store, site.keep, time.time).apply, "deleting old jobs", _KEEP_S, _CLOSE_S)

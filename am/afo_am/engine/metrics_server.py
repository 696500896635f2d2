"""The HTTP server of `/metrics`: no secret is asked, so it is bounded in connections and time.

One connection more than there may be ends the oldest: silent ones, however many, keep out nobody who has a question.
"""

import errno
import socket
import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

#: Connections at once.
MOST = 16
#: How long a connection may be silent, and last at all. Seconds.
SILENT_S, WHOLE_S = 5.0, 10.0
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a line for each question of Prometheus would fill the AM's log."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = True
    #: Connections that wait to be taken.
    request_queue_size = 128

    def server_bind(self) -> None:
        #: Notified when a connection is closed.
        self._closed = threading.Condition()
        #: Since when each connection is open, the oldest first.
        self._open: dict[socket.socket, float] = {}
        super().server_bind()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                time.sleep(0.1)  # the connection still waits, and the loop would ask again at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._closed:
            while len(self._open) >= MOST:
                _shut(next(iter(self._open)))
                self._closed.wait()
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._closed:
            self._open.pop(request, None)
            super().shutdown_request(request)
            self._closed.notify()

    def service_actions(self) -> None:
        """Several times a second: ends what has lasted too long, whatever it sends meanwhile."""
        self._end(time.monotonic() - WHOLE_S)

    def end_all(self) -> None:
        """No connection may hold up the end."""
        self._end(time.monotonic() + 1)

    def _end(self, before: float) -> None:
        with self._closed:
            for request, since in self._open.items():
                if since < before:
                    _shut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: whoever connects can break off, or send what is no request."""


class MetricsServer:
    """Answers by `application` on a free port of `host`, in threads of its own. Raises `OSError`."""

    def __init__(self, application: Callable[..., Any], host: str) -> None:
        self._server = make_server(host, 0, application, server_class=_family(host), handler_class=_Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering; what is under way is broken off."""
        self._server.shutdown()
        self._server.end_all()
        self._server.server_close()
        self._thread.join()


def _family(host: str) -> type[_Server]:
    """A server for the kind of address that `host` is or has."""
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    return type("_ServerOfFamily", (_Server,), {"address_family": family})


def _shut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is over

"""A model server that a test plays, on a Unix socket in the working directory or on a port."""

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\n"
#: How an answer may begin, and go on without an end.
ENDLESS = {
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "header": (_HEAD + b"X: ", b"x"),
    "body": (_HEAD + b"\r\n", b" "), "trailers": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: x\r\n"),
}  # fmt: skip
#: Ten seconds of it end the test of a client that would wait for ever.
MOST_SAID = 500

VERSION = {
    "version": 4, "state": "AVAILABLE", "message": "", "step": 1200, "newest_gradient": 1_000_000_000, "layers": 3,
    "loaded_at": 1_700_000_000, "table_bytes": 4 << 20, "shared_table_bytes": 1 << 20, "requests": 10, "errors": 1,
    "requests_per_second": 12.5, "p50_ms": 1.25, "p99_ms": 4.5, "core_ms": 0.75,
}  # fmt: skip
OLDER: dict[str, Any] = {"version": 3, "state": "END", "message": "it is damaged\x1b[31m\nserving nothing"}
CTR: dict[str, Any] = {
    "name": "ctr", "base_path": "hdfs://ns/ctr", "serving_version": 4, "pinned": True, "split": {"stable": 90},
    "canary": {"version": 5, "traffic_percent": 5, "since": 1, "requests": 7, "error_rate": 0.25},
    "mirror": {"label": "next", "percent": 1, "requests": 3, "dropped": 2, "errors": 1, "score_psi": None},
    "rejected": [{"version": 2, "at": 1, "reason": "too slow\x07"}], "versions": [VERSION, OLDER], "newer": {"key": 1},
}  # fmt: skip
STATE: dict[str, Any] = {"name": "default", "pid": 7, "started_at": 1, "grpc": None, "rest": "127.0.0.1:1"}


class Played:
    """What a server answers, and what it was asked."""

    def __init__(self, *models: dict[str, Any], name: str = "default") -> None:
        self.state, self.asked = STATE | {"name": name, "models": list(models)}, list[tuple[str, Any]]()
        self.status, self.body, self.error = 200, b"", "no version 9 is there\x1b[2J"
        #: What a call tells beside the model.
        self.passed_over = list[dict[str, Any]]()
        #: A key of ENDLESS, and how often its end was said.
        self.endless, self.said = "", 0

    def handler(self) -> type[BaseHTTPRequestHandler]:
        played = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                played.asked.append((self.path, self.headers.get("Authorization")))
                if played.endless:
                    self._say_for_ever(*ENDLESS[played.endless])
                    return
                self._answer(played.body or json.dumps(played.state).encode())

            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"]))
                played.asked.append((self.path, json.loads(asked)))
                self._answer(
                    json.dumps(CTR | {"serving_version": 3, "passed_over": played.passed_over}).encode(), played.status
                )

            def _say_for_ever(self, head: bytes, more: bytes) -> None:
                with suppress(ConnectionError):
                    for played.said in range(MOST_SAID):
                        self.wfile.write(more if played.said else head + more)
                        time.sleep(0.02)

            def _answer(self, body: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps({"error": played.error}).encode() if status != 200 else body)

            def address_string(self) -> str:
                return "here"

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def on_socket(played: Played, name: str = "default") -> Iterator[Played]:
    with socketserver.UnixStreamServer(f"{name}.sock", played.handler()) as server, _running(server):
        yield played


@contextmanager
def on_port(played: Played) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), played.handler()) as server, _running(server):
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()

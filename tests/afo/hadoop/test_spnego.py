"""A web server that demands Kerberos, and what a client with a token, or with nothing, does."""

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from afo.errors import PermissionDenied
from afo.hadoop import delegation_tokens
from afo.hadoop.delegation_tokens import Token
from afo.hadoop.spnego import Negotiation
from afo.yarn.resource_manager import ResourceManager

TOKEN = Token(b"who", b"secret", delegation_tokens.RESOURCE_MANAGER, "host:1")


class Server:
    """Takes one token, and keeps what was asked with which."""

    def __init__(self, token: str) -> None:
        self.asked: list[tuple[str, str | None, bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers["X-Hadoop-Delegation-Token"]
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                server.asked.append((self.command, given, body))
                self.send_response(200 if given == token else 401)
                if given != token:
                    self.send_header("WWW-Authenticate", "Negotiate")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """Takes `TOKEN`."""
    found = Server(TOKEN.url_text)
    yield found
    found.stop()


def opener() -> urllib.request.OpenerDirector:
    """As the ResourceManager is asked."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), Negotiation(TOKEN.kind))


def give(patch: pytest.MonkeyPatch, *tokens: Token) -> None:
    """What YARN does for a container."""
    patch.setattr(delegation_tokens, "load_tokens", lambda: tokens)


def test_a_token_is_sent_where_it_is_demanded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, TOKEN._replace(kind=delegation_tokens.HDFS, password=b"of HDFS"), TOKEN)
    with opener().open(urllib.request.Request(server.url, b"body", method="POST"), timeout=5) as answer:
        assert answer.read() == b"{}"
    assert server.asked == [("POST", None, b"body"), ("POST", TOKEN.url_text, b"body")]


def test_a_token_that_is_refused_is_not_sent_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, TOKEN._replace(password=b"wrong"))
    with pytest.raises(PermissionDenied, match="HTTP 401"):
        ResourceManager((server.url,)).nodes()
    assert len(server.asked) == 2


def test_with_neither_token_nor_ticket_it_says_what_to_do(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    with pytest.raises(PermissionDenied, match="run `kinit`"):
        ResourceManager((server.url,)).nodes()
    assert len(server.asked) == 1

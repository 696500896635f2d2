"""Delegation tokens by REST from NameNodes that are small web servers; `test_kerberos_tokens.py` has a real one."""

import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError
from afo.hadoop import delegation_tokens, webhdfs
from afo.hadoop.delegation_tokens import Token

TOKEN = Token(b"identifier", b"password", "WEBHDFS delegation", "")
GOOD: dict[str, tuple[int, Any]] = {
    "GETDELEGATIONTOKEN": (200, {"Token": {"urlString": TOKEN.url_text}}),
    "RENEWDELEGATIONTOKEN": (200, {"long": 1_795_424_699_396}),
}


def refusal(exception: str, words: str) -> dict[str, tuple[int, Any]]:
    """A NameNode that gives none."""
    return {"GETDELEGATIONTOKEN": (403, {"RemoteException": {"exception": exception, "message": words}})}


@contextmanager
def name_node(answers: dict[str, tuple[int, Any]]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its address, and what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
            asked.append({"method": self.command, **query})
            code, answer = answers[query["op"]]
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configure(directory: Path, patch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """hdfs-site.xml with these."""
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (directory / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    patch.setenv("HADOOP_CONF_DIR", str(directory))


def test_a_token_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with name_node(GOOD) as (address, asked):
        configure(tmp_path, monkeypatch, {"dfs.namenode.http-address": address})
        token, expiry = webhdfs.new_token("10.0.0.1:8020", "alice")
    assert token == Token(b"identifier", b"password", delegation_tokens.HDFS, "10.0.0.1:8020")
    assert expiry == 1_795_424_699.396
    assert asked == [
        {"method": "GET", "op": "GETDELEGATIONTOKEN", "renewer": "alice"},
        {"method": "PUT", "op": "RENEWDELEGATIONTOKEN", "token": TOKEN.url_text},
    ]


def test_of_a_pair_the_active_one_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standby = refusal("StandbyException", "Operation category WRITE is not supported in state standby")
    with name_node(standby) as (first, _), name_node(GOOD) as (second, _):
        pair = {"dfs.ha.namenodes.ns": "nn1, nn2", "dfs.namenode.http-address.ns.nn1": first}
        configure(tmp_path, monkeypatch, {**pair, "dfs.namenode.http-address.ns.nn2": second})
        token, _ = webhdfs.new_token("ha-hdfs:ns", "alice")
    assert token.service == "ha-hdfs:ns"


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        (refusal("AccessControlException", "no ticket"), PermissionDenied, "gives no token: no ticket"),
        (refusal("SafeModeException", "safe mode is ON"), ClusterUnreachable, "safe mode is ON"),
        ({"GETDELEGATIONTOKEN": (500, "a page")}, PermissionDenied, "HTTP 500"),
        ({"GETDELEGATIONTOKEN": (200, {"Token": None})}, ProtocolError, "no Token"),
        ({**GOOD, "RENEWDELEGATIONTOKEN": (200, {})}, ProtocolError, "no long"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_without_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, tuple[int, Any]], kind: type[AfoError], words: str,
) -> None:  # fmt: skip
    with name_node(answers) as (address, _):
        configure(tmp_path, monkeypatch, {"dfs.namenode.http-address": address})
        with pytest.raises(kind, match=words) as caught:
            webhdfs.new_token("10.0.0.1:8020", "alice")
    assert TOKEN.url_text not in str(caught.value)


def test_a_namenode_that_is_not_configured_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, monkeypatch, {})
    with pytest.raises(NotFound, match="no web address of the NameNode of 10"):
        webhdfs.new_token("10.0.0.1:8020", "alice")
    configure(tmp_path, monkeypatch, {"dfs.namenode.http-address": "127.0.0.1:1"})
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        webhdfs.new_token("10.0.0.1:8020", "alice")

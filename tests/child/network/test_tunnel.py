"""The tunnel between two tasks: what comes through, and who does not."""

import contextlib
import gc
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from afo.errors import ClusterUnreachable, Unsupported
from afo.rpc import tls, wire
from afo_child.network.tunnel import INNER, Tunnel

SECRET = wire.new_secret()
HOST = "127.0.0.1"


class Echo:
    """Stands for TensorFlow's server: listens at `INNER`, and sends back what comes."""

    def __init__(self) -> None:
        self.heard = 0
        self._listener = socket.create_server((INNER, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller:
                while piece := caller.recv(1 << 16):
                    self.heard += len(piece)
                    caller.sendall(piece)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.stop()


def tunnel(secret: str = SECRET, host: str = HOST) -> "closing[Tunnel]":
    return closing(Tunnel(secret, host))


def connection(address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def ask(proxy: str, request: bytes) -> tuple[socket.socket, bytes]:
    """The connection, and the first line of the proxy's answer."""
    caller = connection(proxy)
    caller.sendall(request)
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and (byte := caller.recv(1)):
        answer += byte
    return caller, answer.partition(b"\r\n")[0]


def through(proxy: str, address: str) -> tuple[socket.socket, bytes]:
    return ask(proxy, f"CONNECT {address} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())


def test_what_is_sent_comes_through_and_back(echo: Echo) -> None:
    with tunnel() as here, tunnel() as there:
        caller, answer = through(here.proxy, there.enter(echo.port))
        assert b" 200 " in answer
        sent, received = os.urandom(3 << 20), bytearray()
        writer = threading.Thread(target=caller.sendall, args=(sent,))
        writer.start()
        while len(received) < len(sent) and (piece := caller.recv(1 << 16)):
            received += piece
        writer.join()
        caller.close()
        assert received == sent


def test_who_has_another_secret_gets_nowhere(echo: Echo) -> None:
    with tunnel(wire.new_secret()) as stranger, tunnel() as there:
        caller, answer = through(stranger.proxy, there.enter(echo.port))
        assert b" 502 " in answer
        caller.close()
    assert not echo.heard


@pytest.mark.parametrize("believes", [False, True], ids=["plain", "TLS without a certificate"])
def test_who_has_no_secret_gets_nowhere(echo: Echo, believes: bool) -> None:
    with tunnel() as there:
        caller = connection(there.enter(echo.port))
        if believes:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            caller = context.wrap_socket(caller)
        with caller, contextlib.suppress(OSError):  # the other side hangs up
            caller.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert b"HTTP" not in caller.recv(100)
    assert not echo.heard


def test_open_connections_end_with_the_tunnel(echo: Echo) -> None:
    with tunnel() as here:
        with tunnel() as there:
            caller, _ = through(here.proxy, there.enter(echo.port))
            caller.sendall(b"once")
            assert caller.recv(10) == b"once"
        with caller, contextlib.suppress(OSError):
            assert caller.recv(10) == b""


def half_of_a_handshake(address: str) -> socket.socket:
    """A connection to which the server has said hello, and waits for the end of the client's part."""
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls.client_context(SECRET).wrap_bio(received, sent, server_hostname=tls.NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    caller = connection(address)
    caller.sendall(sent.read())
    assert caller.recv(1)
    return caller


def test_connections_that_are_being_made_end_with_the_tunnel(echo: Echo) -> None:
    with tunnel() as here, tunnel() as there:
        address = there.enter(echo.port)
        halves = [half_of_a_handshake(address) for _ in range(4)]
        wholes = [through(here.proxy, address)[0] for _ in range(4)]  # with which the other end may not have begun
    gc.collect()  # what is left open warns, which fails a test
    for caller in (*halves, *wholes):
        caller.close()


def test_a_task_that_does_not_listen_yet_ends_the_connection() -> None:
    with tunnel() as here, tunnel() as there, socket.create_server((INNER, 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        caller, _ = through(here.proxy, there.enter(port))
        with caller:
            assert caller.recv(1) == b""


def test_a_task_that_is_gone_is_refused_at_once() -> None:
    with tunnel() as here:
        with tunnel() as there:
            address = there.enter()
        caller, answer = through(here.proxy, address)
        assert b" 502 " in answer
        caller.close()


def test_another_entrance_takes_the_place_of_the_last(echo: Echo) -> None:
    with tunnel() as here, tunnel() as there:
        first = there.enter()
        second = there.enter(echo.port)
        assert first != second
        for address, word in ((first, b" 502 "), (second, b" 200 ")):
            caller, answer = through(here.proxy, address)
            assert word in answer
            caller.close()


@pytest.mark.parametrize(
    "request_line", [b"GET / HTTP/1.0\r\n\r\n", b"CONNECT nowhere HTTP/1.0\r\n\r\n", b"\0\r\n\r\n"]
)
def test_the_proxy_knows_one_kind_of_request(request_line: bytes) -> None:
    with tunnel() as here:
        caller, answer = ask(here.proxy, request_line)
        assert answer == b"HTTP/1.1 405 Method Not Allowed"
        caller.close()


def test_a_host_that_is_elsewhere_has_no_entrance() -> None:
    with pytest.raises((ClusterUnreachable, Unsupported)):
        Tunnel(SECRET, "192.0.2.1")


def test_both_contexts_are_of_the_newest_protocol() -> None:
    contexts = tls.server_context(SECRET), tls.client_context(SECRET)
    assert {context.minimum_version for context in contexts} == {ssl.TLSVersion.TLSv1_3}
    assert {context.verify_mode for context in contexts} == {ssl.CERT_REQUIRED}

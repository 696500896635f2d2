"""What whoever lacks a job's secret is told at the port of a parameter server of `engine: psplus`."""

import socket
import ssl
from contextlib import closing

from afo.rpc import tls, wire

#: The beginning of a client's first frame (afo/psplus/frame.h), and of an alert of TLS.
HELLO, ALERT = b"AFOP" + bytes(60), b"\x15\x03"


def answer_to(host: str, port: int, context: ssl.SSLContext | None) -> bytes:
    """All that a server says to a hello before it ends the connection; of an error nothing."""
    with socket.create_connection((host, port), timeout=30) as plain:
        try:
            with closing(context.wrap_socket(plain, server_hostname=tls.NAME) if context else plain) as connection:
                connection.sendall(HELLO)
                return b"".join(iter(lambda: connection.recv(4096), b""))
        except (ssl.SSLError, ConnectionError):
            return b""


def assert_strangers_get_nothing(host: str, port: int) -> None:
    """In plain bytes, without a certificate, with one of another secret; the last two also where they trust anybody."""
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    doubting, believing = tls.client_context(wire.new_secret()), tls.client_context(wire.new_secret())
    for context in (without, believing):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    assert answer_to(host, port, None)[:2] in (b"", ALERT)
    assert [answer_to(host, port, context) for context in (without, doubting, believing)] == [b"", b"", b""]

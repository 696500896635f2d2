"""The port of a parameter server, kept free until the server takes it; whether its process answers there."""

import socket

import psutil

from afo.errors import ClusterUnreachable
from afo.process.hosts import host_port
from afo.process.state import kernel_state, state_in_brackets

#: HTTP/2: what a client begins with, and its settings, none (RFC 9113, 3.4).
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
#: Where a server that listens on all addresses is asked.
_LOOPBACK = {"::": "::1", "0.0.0.0": "127.0.0.1"}


class PortReservation:
    """A bound socket that never listens. TensorFlow binds the same port beside it (TF_GRPC_REUSE_PORT=1).

    It is bound on all addresses because TensorFlow's server binds `[::]`: a port that is free on one address alone
    may be taken on another. Nobody can connect to a socket that does not listen.
    """

    def __init__(self, host: str, generation: int) -> None:
        self.generation = generation
        self._socket: socket.socket | None = _bound_socket()
        self.address = host_port(host, self._socket.getsockname()[1])

    @property
    def held(self) -> bool:
        """Whether the port is still kept from others."""
        return self._socket is not None

    def release(self) -> None:
        """Let go; to be called once the server listens, or the port is no longer wanted."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def unresponsive(pid: int, patience_s: float) -> str:
    """In words, that the server of a process does not answer; empty if it does, or listens at no port.

    A process that is stopped, or hangs as a whole, is still connected to: the kernel does that. gRPC's server sends
    HTTP/2's first frame of its own accord; one that wants TLS refuses what it is sent, or closes the connection.
    """
    try:
        listening = [
            connection.laddr
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
    except psutil.Error:
        return ""
    silent = [address for address in listening if not _answers(address.ip, address.port, patience_s)]
    if not silent:
        return ""
    state = state_in_brackets(kernel_state(pid))
    return f"its process does not answer at port {silent[0].port} within {patience_s:g} s{state}"


def describe_stopped(pid: int) -> str:
    """In words, that somebody has stopped a process; empty if nobody has."""
    state = kernel_state(pid)
    return f"its process stands still{state_in_brackets(state)}" if state in ("T", "t") else ""


def _answers(host: str, port: int, patience_s: float) -> bool:
    """Whatever is no silence is an answer, also an end: who has ended is seen by others."""
    try:
        with socket.create_connection((_LOOPBACK.get(host, host), port), patience_s) as connection:
            connection.sendall(_PREFACE)
            connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def _bound_socket() -> socket.socket:
    try:
        return _bind(socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else _bind(socket.AF_INET, "0.0.0.0")
    except OSError as error:
        raise ClusterUnreachable(f"no port is free on this machine: {error.strerror}") from error


def _bind(family: socket.AddressFamily, address: str) -> socket.socket:
    reserved = socket.socket(family, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        reserved.bind((address, 0))
    except OSError:
        reserved.close()
        raise
    return reserved

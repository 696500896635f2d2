"""A port that stays free until a TensorFlow server takes it."""

import socket

from afo.errors import ClusterUnreachable
from afo.hosts import host_port


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

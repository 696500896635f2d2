"""HTTP connection that ends by a time and reads so many bytes at most, whatever its peer does.

`http.client` takes its timeout for each receipt alone, and reads `100 Continue`, headers and the trailers of chunks for
as long as they come.
"""

import http.client
import io
import os
import socket
import ssl
import time
import urllib.parse
from pathlib import Path
from typing import Any


class BoundedConnection(http.client.HTTPConnection):
    """To `address`, a URL or the path of a Unix socket, until `until` on the monotonic clock.

    The resolver's time for the name of a host is its own.
    """

    def __init__(self, address: urllib.parse.SplitResult | Path, until: float, most_bytes: int) -> None:
        url = None if isinstance(address, Path) else address
        is_tls = url is not None and url.scheme == "https"
        super().__init__((url and url.hostname) or "localhost", (url and url.port) or (443 if is_tls else 80))
        self._path, self._is_tls = address if isinstance(address, Path) else None, is_tls
        self._until, self._most_bytes = until, most_bytes

    def connect(self) -> None:
        """Raises OSError, of which TimeoutError is one."""
        opened = self._open_tcp() if self._path is None else self._open_local(self._path)
        try:
            if self._is_tls:
                opened.settimeout(seconds_left(self._until))
                opened = ssl.create_default_context().wrap_socket(opened, server_hostname=self.host)
        except BaseException:
            opened.close()
            raise
        self.sock = _BoundedSocket(opened, self._until, self._most_bytes)

    def _open_tcp(self) -> socket.socket:
        """To the first address of the host that takes it."""
        problem: OSError | None = None
        for family, kind, protocol, _, place in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                opened = _connected(socket.socket(family, kind, protocol), place, self._until)
            except OSError as error:
                problem = error
                continue
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened
        raise problem or OSError(f"{self.host} has no address")

    def _open_local(self, path: Path) -> socket.socket:
        """The kernel takes 107 bytes of a path, so it is reached by its directory."""
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            place = f"/proc/self/fd/{directory}/{path.name}"
            return _connected(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), place, self._until)
        finally:
            os.close(directory)


def seconds_left(until: float) -> float:
    """Raises TimeoutError where there are none."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("its answer is late")
    return left


def _connected(opened: socket.socket, place: Any, until: float) -> socket.socket:
    try:
        opened.settimeout(seconds_left(until))
        opened.connect(place)
    except BaseException:
        opened.close()
        raise
    return opened


class _BoundedSocket:
    """What `http.client` uses of a socket."""

    def __init__(self, opened: socket.socket, until: float, most_bytes: int) -> None:
        self._socket, self._until, self._most_bytes = opened, until, most_bytes

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(seconds_left(self._until))
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedInput(self._socket, self._until, self._most_bytes))

    def close(self) -> None:
        self._socket.close()


class _BoundedInput(io.RawIOBase):
    """Raises TimeoutError after `until`, and ValueError where more than `most_bytes` come."""

    def __init__(self, opened: socket.socket, until: float, most_bytes: int) -> None:
        super().__init__()
        self._socket, self._until, self._left, self._most_bytes = opened, until, most_bytes, most_bytes
        self._file = opened.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(seconds_left(self._until))
        read = self._file.readinto(buffer)
        self._left -= read or 0
        if self._left < 0:
            raise ValueError(f"its answer has over {self._most_bytes >> 20} MiB")
        return read

    def close(self) -> None:
        self._file.close()
        super().close()

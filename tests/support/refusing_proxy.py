"""An HTTP proxy that refuses everything and remembers who came."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

_ANSWER = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class RefusingProxy:
    """A process of its own, so that a busy test cannot keep it from answering."""

    def __init__(self, process: Popen[str], port: int) -> None:
        self._process, self.url = process, f"http://127.0.0.1:{port}"

    def environment(self) -> dict[str, str]:
        """As a site sets it, which knows nothing of the cluster's machines."""
        names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        return dict.fromkeys(names, self.url)

    def visits(self) -> list[str]:
        """Ends it; the first line of each request that it got."""
        self._process.terminate()
        assert self._process.stdout is not None
        return self._process.stdout.read().splitlines()


@contextmanager
def refusing_proxy() -> Iterator[RefusingProxy]:
    """Listens on this machine."""
    with Popen([sys.executable, __file__], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield RefusingProxy(process, int(process.stdout.readline()))
        finally:
            process.terminate()


def _serve() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            visitor, _ = server.accept()
            with visitor:
                visitor.settimeout(5.0)
                request = visitor.recv(4096)
                # Before the answer: who has it may end this process.
                print(request.partition(b"\r\n")[0].decode(errors="replace"), flush=True)
                visitor.sendall(_ANSWER)


if __name__ == "__main__":
    _serve()

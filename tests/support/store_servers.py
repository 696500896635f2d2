"""Parameter servers of our own in processes without TensorFlow, each with one store at a time; also their program."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreProcess:
    """A process that serves when it is told to."""

    def __init__(self, secret: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell(secret)

    def serve(self, store_version: int = 1, port: int = 0) -> str:
        """An empty store in place of the one that was there; returns its address."""
        self._tell(f"{store_version} {port}")
        assert self._process.stdout is not None
        found = self._process.stdout.readline().strip()
        assert found, "the process of the server has ended"
        return f"127.0.0.1:{found}"

    def pause(self) -> None:
        """SIGSTOP: it answers nothing, and its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


@contextmanager
def running(count: int, secret: str) -> Iterator[list[StoreProcess]]:
    """So many processes, which are killed at the end."""
    processes = [StoreProcess(secret) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()


def main() -> None:
    """Serve as the lines of stdin say, the first of which is the secret."""
    from afo.psplus.store_server import StoreServer
    from afo.tables import desk

    secret, server = sys.stdin.readline().strip(), None
    for line in sys.stdin:
        version, port = map(int, line.split())
        if server is not None:
            server.stop()
        served, server = server, StoreServer(f"127.0.0.1:{port}", secret, version, loops=2)
        if served is None:
            desk.attend()
        print(server.port, flush=True)


if __name__ == "__main__":
    main()

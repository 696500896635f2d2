"""A TensorBoard over a job's summaries that ends with the thread that started it, whatever ends that."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from afo.errors import AfoError, NotFound, WaitTimeout
from afo.process import lifetime
from afo.tensorboard import program

#: TensorBoard imports much; on a cold disk it takes its time.
START_S = 120.0
STOP_S = 5.0
_POLL_S = 0.2
_LAST_LINES = 8


class TensorBoard:
    """A running TensorBoard; `address` opens in a browser."""

    def __init__(self, popen: "subprocess.Popen[bytes]", port: int, log: IO[bytes]) -> None:
        self._popen, self._log = popen, log
        self.port, self.pid = port, popen.pid
        self.address = f"http://127.0.0.1:{port}/"

    def await_listening(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Returns once it listens or nobody waits any more (`given_up`).

        Raises `AfoError` with its last words if it ends, `WaitTimeout` if it does not come up.
        """
        deadline = time.monotonic() + START_S
        while not _listens(self.port):
            if given_up():
                return
            self.check()
            if time.monotonic() > deadline:
                raise WaitTimeout(f"TensorBoard does not listen after {START_S:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.check()  # it may be another's port by now

    def check(self) -> None:
        """Raises `AfoError` if it has ended."""
        code = self._popen.poll()
        if code is not None:
            advice = "TensorBoard needs to be installed in that environment: pip install tensorboard"
            raise AfoError(f"TensorBoard ended with {code}: {self._last_words()}\n{advice}")

    def _last_words(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


@contextlib.contextmanager
def tensorboard(python: str, folder: Path, port: int | None, *options: str) -> Iterator[TensorBoard]:
    """TensorBoard of the interpreter `python` over a folder, on `port` or a free one; gone with the block.

    Of its plugins those alone that read nothing but event files: `tensorboard_program`.

    `options` are more of TensorBoard's own. Its own session keeps Ctrl-C from it: we end it, and with it what it has
    started.
    Raises `NotFound` when there is no such interpreter.
    """
    port = port or _free_port()
    command = [python, "-P", program.__file__, "--logdir", str(folder), "--host", "127.0.0.1",
               "--port", str(port), "--load_fast", "false", *options]  # fmt: skip
    with tempfile.TemporaryFile() as log:
        try:
            popen = subprocess.Popen(
                lifetime.command(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            raise NotFound(f"cannot start {python}: {error.strerror}") from error
        try:
            yield TensorBoard(popen, port, log)
        finally:
            _end(popen)


def _end(popen: "subprocess.Popen[bytes]") -> None:
    if popen.poll() is None:
        popen.terminate()
        try:
            popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True

"""Log of the AMs of one application attempt, with a copy in the job's directory while they run.

YARN keeps it too, but where a node's web page and `yarn logs` alone reach it. The supervisor keeps it, so that the end
of an AM that dies is in it. An AM asks for a copy before its verdict, since who waits for that reads the log next, and
again before it ends its application, and with it its own container: over a socket that it inherits, a byte asks and a
byte answers.
"""

import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from afo.job.paths import JobPaths
from afo.logs.capped import CappedLog
from afo.logs.upload import LogUploader

#: The descriptor of the AM's end of the socket.
DESCRIPTOR = "AFO_AM_LOG_FD"
#: How long a last copy may take: a file system that hangs must not keep a job from its end.
COPY_S = 10.0
_BYTE = b"\n"
_CHUNK = 64 * 1024
_LOG = logging.getLogger(__name__)


class MasterLog:
    """Kept in `folder`, copied to the log's place for the AM of this application attempt."""

    def __init__(self, folder: Path, paths: JobPaths, attempt: int) -> None:
        self._log = CappedLog(folder / "stderr")
        # The first file of a job would else make its directory, and that for all to read.
        self._uploader = LogUploader(paths.am_log(attempt), {"stderr": self._log}, private=paths.dir)
        self._uploader.start()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._log.feed(data)

    def copy(self) -> None:
        """Return when the copy holds all so far, or after COPY_S."""
        self._uploader.copy(COPY_S)

    def close(self) -> None:
        """Take nothing more, and copy a last time."""
        self._log.close()
        self._uploader.finish(COPY_S)


class Relay(threading.Thread):
    """Passes on what one AM writes to stderr until it is closed, and answers it with `copy` when it asks."""

    def __init__(
        self, stderr: IO[bytes], asked: socket.socket, take: Callable[[bytes], None], copy: Callable[[], None]
    ) -> None:
        super().__init__(name="am-stderr", daemon=True)
        self._stderr, self._asked, self._take, self._copy = stderr, asked, take, copy

    def run(self) -> None:
        """Until the end of stderr."""
        sources: list[IO[bytes] | socket.socket] = [self._stderr, self._asked]
        with self._stderr, self._asked:
            while True:
                select.select(sources, [], [])
                # Looked at a second time: both may have come while the first look was under way, and what was said
                # before a copy was asked for is in it.
                ready, _, _ = select.select(sources, [], [], 0)
                if self._stderr in ready:
                    data = os.read(self._stderr.fileno(), _CHUNK)
                    if not data:
                        return
                    self._take(data)
                elif not self._answer_request():
                    sources.remove(self._asked)

    def _answer_request(self) -> bool:
        """False when there is nobody any more to ask."""
        try:
            if not self._asked.recv(1):
                return False
            self._copy()
            self._asked.sendall(_BYTE)
        except OSError:
            return False
        return True


def ask_for_copy() -> None:
    """In the AM: return when its supervisor has copied all that was said so far; soon, where it cannot."""
    number = os.environ.get(DESCRIPTOR)
    if number is None:
        return
    try:
        with socket.socket(fileno=os.dup(int(number))) as supervisor:
            supervisor.settimeout(2 * COPY_S)
            supervisor.sendall(_BYTE)
            supervisor.recv(1)
    except OSError as error:
        _LOG.warning("the log was not copied a last time: %s", error)

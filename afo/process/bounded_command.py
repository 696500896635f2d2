"""A command with bounds: of time, of output, and never longer than the process that runs it."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from afo.process import lifetime

LIMIT_S = 60.0
LIMIT_BYTES = 256 * 1024
_CHUNK = 64 * 1024
#: How long output may still flow after the end; only a process that the command left behind can write so long.
_DRAIN_S = 0.5


class Ran(Struct, frozen=True, kw_only=True):
    """How a command ended. `code` is the exit code or -signal; `output` the beginning of what it wrote."""

    code: int
    output: str
    #: It wrote more.
    truncated: bool
    #: It was killed for its time.
    late: bool


class BoundedCommand:
    """One command, started at once in a session of its own; `wait` for it, from any thread.

    Must be made in a thread that lives as long as the command may: the kernel kills it with that thread.
    stdout and stderr are one stream, stdin is empty. Raises `OSError` if no process can be started.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], work_dir: Path) -> None:
        self._popen = subprocess.Popen(
            lifetime.command(list(argv)),
            cwd=work_dir, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        #: Held around the reaping of the leader: until then its number names its group and no other.
        self._lock = threading.Lock()
        self._reaped = False
        self._kept = b""
        self._more = False

    def kill(self) -> None:
        """End it now, if it is not over. From any thread."""
        with self._lock:
            if not self._reaped:
                os.killpg(self._popen.pid, signal.SIGKILL)

    def wait(self, limit_s: float = LIMIT_S, limit_bytes: int = LIMIT_BYTES) -> Ran:
        """Until it is over, or `limit_s` have passed; nothing of its group is left then."""
        with cast(IO[bytes], self._popen.stdout) as output:
            exited = self._follow(output.fileno(), limit_s, limit_bytes)
            self.kill()
            code = self._reap()
        text = self._kept.decode(errors="replace")
        return Ran(code=code, output=text, truncated=self._more, late=not exited)

    def _reap(self) -> int:
        with self._lock:
            code = self._popen.wait()
            self._reaped = True
        return code

    def _follow(self, output: int, limit_s: float, limit_bytes: int) -> bool:
        """Read until the process and its output are over or the time is up; returns whether it ended by itself."""
        deadline, exited, ending = time.monotonic() + limit_s, False, os.pidfd_open(self._popen.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(output, selectors.EVENT_READ)
                selector.register(ending, selectors.EVENT_READ)
                while selector.get_map():
                    ready = selector.select(max(0.0, deadline - time.monotonic()))
                    if not ready:
                        return exited
                    for key, _ in ready:
                        if key.fd == ending:
                            exited, deadline = True, time.monotonic() + _DRAIN_S
                            selector.unregister(ending)
                        elif not self._take(os.read(output, _CHUNK), limit_bytes):
                            selector.unregister(output)
        finally:
            os.close(ending)
        return exited

    def _take(self, data: bytes, limit_bytes: int) -> bool:
        """Keep what there is room for; False at the end of the output."""
        room = limit_bytes - len(self._kept)
        self._kept += data[:room]
        self._more = self._more or len(data) > room
        return bool(data)

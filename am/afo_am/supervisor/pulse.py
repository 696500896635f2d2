"""The AM's heartbeat to its supervisor, which sees that it came to a halt: by a signal, or in a call that hangs.

Such a process does not end, so that nothing would start it again; on YARN its driver goes on talking to the
ResourceManager, which sees a live application. The AM sends a byte every `EVERY_S` over a pipe that it inherits, from a
thread of its own: a file system that is away keeps the AM waiting, and is no reason to start it again.
"""

import os
import threading
import time

#: The descriptor of the AM's end of the pipe.
DESCRIPTOR = "AFO_AM_PULSE_FD"
EVERY_S = 1.0
#: An AM that was heard of and then not for so long is killed, or for half as long as a Child waits for its AM
#: (`timeouts.orphan`) if that is less, but never sooner than `LEAST_S`: a busy machine is no reason.
SILENT_S, LEAST_S = 60.0, 10.0


def bound(orphan_s: float) -> float:
    """Seconds of silence that are allowed to the AM of Children that wait for it so long."""
    return max(LEAST_S, min(SILENT_S, orphan_s / 2))


class Pulse(threading.Thread):
    """In the AM. Ends when nobody listens any more."""

    def __init__(self, descriptor: int, every_s: float = EVERY_S) -> None:
        super().__init__(name="am-pulse", daemon=True)
        self._descriptor, self._every_s = descriptor, every_s

    def run(self) -> None:
        """Send."""
        os.set_blocking(self._descriptor, False)
        while True:
            try:
                os.write(self._descriptor, b"\n")
            except BlockingIOError:
                pass  # the supervisor is behind, and will find enough
            except OSError:
                return
            time.sleep(self._every_s)


def begin() -> None:
    """Send from now on, where a supervisor listens. What this process starts has no part in it."""
    number = os.environ.pop(DESCRIPTOR, None)
    if number is not None:
        os.set_inheritable(int(number), False)
        Pulse(int(number)).start()


class Listener:
    """In the supervisor, for one start of the AM."""

    def __init__(self, silent_s: float = SILENT_S) -> None:
        self._silent_s = silent_s
        self._ours, self.theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        #: Nothing is expected of an AM that was never heard of: its imports may take long.
        self._heard: float | None = None

    def close(self) -> None:
        """Listen no more."""
        os.close(self._ours)

    def is_silent(self, now: float) -> bool:
        """Whether the AM was heard of and then not for too long."""
        try:
            if os.read(self._ours, 4096):
                self._heard = now
        except BlockingIOError:
            pass
        return self._heard is not None and now - self._heard > self._silent_s

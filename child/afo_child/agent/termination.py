"""SIGTERM as an event: noticed at once whatever the main thread is doing, with a deadline for the way out."""

import os
import signal
import threading
from collections.abc import Callable

EXIT_TERMINATED = 128 + signal.SIGTERM


class Termination(threading.Thread):
    """After SIGTERM or SIGINT: `on_signal`, then `on_deadline` and the end of this process after `grace_s` seconds.

    Python runs signal handlers only between instructions of the main thread, which may wait in a call; the wake-up
    descriptor is written by the signal itself. To be made in the main thread.
    """

    def __init__(self, on_signal: Callable[[], None], on_deadline: Callable[[], None], grace_s: float = 2.0) -> None:
        super().__init__(name="termination", daemon=True)
        self._on_signal, self._on_deadline, self._grace_s = on_signal, on_deadline, grace_s
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # first: what a handler took before would be lost
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def run(self) -> None:
        """Wait for the signal."""
        while not set(os.read(self._reader, 64)) & {signal.SIGTERM, signal.SIGINT}:
            continue
        self._on_signal()
        threading.Event().wait(self._grace_s)
        self._on_deadline()
        os._exit(EXIT_TERMINATED)

"""Progress of a running process for its Child: JSON lines in a pipe."""

import os
import time

import msgspec

from afo.logs.task_log import ProgressLog
from afo.protocol.train_task import Progress

#: Least time between two lines.
INTERVAL_S = 0.5


class ProgressPipe:
    """Writes `Progress` lines to a file descriptor, but too frequent ones unless `now` is set; and some to the log."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last = float("-inf")
        self._log = ProgressLog()
        self._samples = 0
        #: Steps that this process has ended, by the reports, the dropped ones too.
        self.steps = 0

    def report(self, progress: Progress, *, now: bool = False) -> None:
        """A closed pipe is no error: the Child is gone then, and the kernel ends this process with it."""
        self.steps += progress.samples > self._samples
        self._samples = progress.samples
        self._log.take(progress)
        if self._descriptor < 0 or (not now and time.monotonic() - self._last < INTERVAL_S):
            return
        self._last = time.monotonic()
        try:
            os.write(self._descriptor, msgspec.json.encode(progress) + b"\n")
        except BrokenPipeError:
            self._descriptor = -1

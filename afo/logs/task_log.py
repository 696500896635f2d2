"""A task's own log: where it stands, every so often, and what it has done."""

import logging
import sys
import time

from afo.formats.plain_text import plain
from afo.protocol.train_task import Progress

LOG = logging.getLogger("afo.task")
#: Longest time without a line while something is done.
EVERY_S = 30.0


def begin() -> None:
    """Write the lines of this process to stderr, in the form of the Application Master's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def one_line(text: str) -> str:
    """A name or a message as a part of a line."""
    return " ".join(plain(text).splitlines())


class ProgressLog:
    """A line where the phase changes, and every EVERY_S where anything was done since the one before."""

    def __init__(self) -> None:
        self._told: Progress | None = None
        self._at = time.monotonic()

    def take(self, progress: Progress) -> None:
        """Say it, if it is time."""
        now, told = time.monotonic(), self._told
        changed = told is None or told.phase != progress.phase
        if not changed and (now - self._at < EVERY_S or told is None or not progress.is_beyond(told)):
            return
        before = 0 if told is None else told.samples
        LOG.info("%s", _words(progress, (progress.samples - before) / max(now - self._at, 1e-9)))
        self._told, self._at = progress, now


def _words(progress: Progress, samples_per_s: float) -> str:
    parts = [f"step {progress.step:,}"] if progress.step else []
    parts += [f"loss {progress.loss:.4f}"] if progress.loss is not None else []
    parts += [f"{samples_per_s:,.0f} samples/s"] if samples_per_s > 0 else []
    parts += [progress.message] if progress.message else []
    return f"{progress.phase}: {', '.join(parts)}" if parts else progress.phase

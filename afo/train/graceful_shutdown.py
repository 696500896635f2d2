"""SIGTERM between two steps: a worker that is told to end has applied each of its batches wholly, or not at all."""

import signal
from types import FrameType, TracebackType
from typing import Any


class Departure:
    """While it is entered, in the main thread, SIGTERM waits for `between_steps`; a Child kills who takes too long."""

    def __init__(self) -> None:
        self._told = False
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> "Departure":
        self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._told = True

    def between_steps(self) -> None:
        """End this process by the signal, if it came."""
        if self._told:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.between_steps()
        signal.signal(signal.SIGTERM, self._before)

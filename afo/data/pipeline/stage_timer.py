"""Timer of the stages of the thread that makes batches; another thread may ask at any time."""

import threading
import time

from msgspec import structs

from afo.protocol.input_wait import InputBound, InputWait


class Stages:
    """One stage after the other; in stage None there is nothing to do, which is not counted."""

    def __init__(self) -> None:
        self._stage: InputBound | None = None
        self._since = 0.0
        self._spent = InputWait()
        self._lock = threading.Lock()

    def enter(self, stage: InputBound | None) -> None:
        """What is done from here on."""
        with self._lock:
            now = time.monotonic()
            self._spent = self._sum_until(now)
            self._stage, self._since = stage, now

    def seconds(self) -> InputWait:
        """Seconds in each stage, those of the present one included."""
        with self._lock:
            return self._sum_until(time.monotonic())

    def _sum_until(self, now: float) -> InputWait:
        if self._stage is None:
            return self._spent
        return structs.replace(self._spent, **{self._stage: getattr(self._spent, self._stage) + now - self._since})

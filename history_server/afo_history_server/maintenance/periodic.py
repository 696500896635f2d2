"""Periodic work of the server while it runs."""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from afo.errors import AfoError

#: The pause after a round is so many times longer than the round at least.
_LONGER = 5.0
_LOG = logging.getLogger(__name__)


class Periodic:
    """As a context: a thread that calls `action` every `every_s` seconds, the first time after `first_s`.

    A round that fails is logged, and the next one comes as if it had not.
    """

    def __init__(self, action: Callable[[], object], name: str, every_s: float, first_s: float = 0.0) -> None:
        self._action, self._name, self._every_s, self._first_s = action, name, every_s, first_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not waited for: a file system that is away could hold it for minutes, and whatever it writes is whole or not
        # there.
        self._over.set()

    def _run(self) -> None:
        pause = self._first_s
        while not self._over.wait(pause):
            begun = time.monotonic()
            try:
                self._action()
            except AfoError as error:
                _LOG.warning("%s: %s", self._name, error)
            except Exception:
                _LOG.exception("%s failed; it is tried again", self._name)
            pause = max(self._every_s, _LONGER * (time.monotonic() - begun))

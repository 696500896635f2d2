"""Keeps the list of jobs young while the server runs, so that no request has to wait for a scan."""

import logging
import threading
import time
from types import TracebackType

from afo.errors import AfoError
from afo_history_server.job_store import JobStore

#: Seconds between two scans at least, and how much longer than a scan takes.
_EVERY_S = 1.0
_LONGER = 5.0
_LOG = logging.getLogger(__name__)


class Refresher:
    """As a context: a thread that scans again and again."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not waited for: a file system that is away could hold it for minutes, and it writes nothing that matters.
        self._over.set()

    def _run(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            begun = time.monotonic()
            try:
                self._store.refresh()
            except AfoError as error:  # there is no list yet; a request says it to who asks
                _LOG.warning("the jobs cannot be read: %s", error)
            except Exception:
                _LOG.exception("a scan failed; the list stays as it is until one does not")
            pause = max(_EVERY_S, _LONGER * (time.monotonic() - begun))

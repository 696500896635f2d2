"""Copies logs to the job's directory while a program runs and once at its end, in a thread that may hang alone."""

import logging
import threading
from collections.abc import Mapping

from afo import storage
from afo.errors import AfoError
from afo.logs.capped import CAP_BYTES, CappedLog

#: Size of a copy made while the program runs; the last one holds all that was kept.
LIVE_BYTES = 256 * 1024
_LOG = logging.getLogger(__name__)


class LogUploader(threading.Thread):
    """Writes `<url>/<name>` for each log that changed, every `every_s` seconds. A failed copy is tried again then.

    Of the directory `private`, if one is named, what is missing is made for its owner alone.
    """

    def __init__(self, url: str, logs: Mapping[str, CappedLog], every_s: float = 10.0, private: str = "") -> None:
        super().__init__(name="log-upload", daemon=True)
        self._url, self._logs, self._every_s, self._private = url, dict(logs), every_s, private
        #: Of each log how much there was when it was copied last, and how much of it was copied at most.
        self._uploaded = dict.fromkeys(self._logs, (-1, 0))
        self._changed = threading.Condition()
        #: Whole copies: asked for, and made.
        self._asked = self._made = 0
        self._ending = False

    def run(self) -> None:
        """Until `finish`."""
        ending = False
        while not ending:
            with self._changed:
                self._changed.wait_for(lambda: self._ending or self._asked > self._made, self._every_s)
                ending, asked = self._ending, self._asked
            self._upload_changed(2 * CAP_BYTES if ending or asked > self._made else LIVE_BYTES)
            with self._changed:
                self._made = asked
                self._changed.notify_all()

    def copy(self, timeout_s: float) -> bool:
        """Copy everything now; False if that was not done within `timeout_s` (a file system that hangs)."""
        with self._changed:
            self._asked += 1
            wanted = self._asked
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._made >= wanted, timeout_s)

    def finish(self, timeout_s: float) -> bool:
        """Copy everything a last time; False as of `copy`."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self.join(timeout_s)
        return not self.is_alive()

    def _upload_changed(self, limit: int) -> None:
        for name, log in self._logs.items():
            total, (before, copied) = log.total, self._uploaded[name]
            # What was copied whole is not written again: who is being ended may leave half a file.
            if total != before or copied < min(total, limit):
                try:
                    self._upload(name, log, limit)
                    self._uploaded[name] = total, limit
                except (AfoError, OSError) as error:
                    _LOG.warning("cannot upload %s: %s", name, error)

    def _upload(self, name: str, log: CappedLog, limit: int) -> None:
        if self._private:
            storage.make_dirs(self._private, mode=0o700)
            self._private = ""
        with storage.open_output(storage.join(self._url, name)) as file:
            for part in log.parts(limit):
                file.write(part)

"""A storage whose clients are limited: all files that this process opens get so many bytes a second together."""

import threading
import time
from typing import Any

from afo import storage


class Limit:
    """Bytes a second for all that use it."""

    def __init__(self, rate: float) -> None:
        self._rate, self._lock, self._free_at = rate, threading.Lock(), 0.0

    def pass_through(self, size: int) -> None:
        """Wait until so many bytes may have gone."""
        with self._lock:
            begin = max(self._free_at, time.monotonic())
            end = self._free_at = begin + size / self._rate
        time.sleep(max(0.0, end - time.monotonic()))


class _Limited:
    def __init__(self, file: Any, limit: Limit) -> None:
        self._file, self._limit = file, limit

    def __enter__(self) -> "_Limited":
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)

    def write(self, data: bytes) -> int:
        """As the file's, later."""
        self._limit.pass_through(len(data))
        written: int = self._file.write(data)
        return written

    def read(self, size: int = -1) -> bytes:
        """As the file's, later."""
        data: bytes = self._file.read(size)
        self._limit.pass_through(len(data))
        return data


def limit(rate: float) -> None:
    """Bytes a second of this process; 0: as fast as it goes."""
    if not rate:
        return
    shared = Limit(rate)
    for name in ("open_output", "open_input"):
        function = getattr(storage, name)

        def limited(url: str, *given: Any, _function: Any = function, **named: Any) -> Any:
            return _Limited(_function(url, *given, **named), shared)

        setattr(storage, name, limited)

"""A bounded memory of what was used last."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """At most `limit` entries; the one that was not asked for longest goes first. Safe for threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The entry, now the youngest, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def drop(self, key: K) -> None:
        """Forget an entry; it may be there or not."""
        with self._lock:
            self._entries.pop(key, None)

    def put(self, key: K, value: V) -> V:
        """Keep `value`; returns the entry that is kept, which is an earlier one if another thread was faster."""
        with self._lock:
            kept = self._entries.setdefault(key, value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._limit:
                self._entries.popitem(last=False)
            return kept

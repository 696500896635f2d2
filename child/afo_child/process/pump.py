"""Pump from pipes to their readers, so that a process never waits for whoever reads its output."""

import os
import selectors
import threading
from collections.abc import Callable, Mapping

_CHUNK = 64 * 1024

Sink = Callable[[bytes], None]


class Pump(threading.Thread):
    """Reads every descriptor until its end and closes it. Sinks are called from this thread alone, and do not raise."""

    def __init__(self, sinks: Mapping[int, Sink]) -> None:
        super().__init__(name="pump", daemon=True)
        self._sinks = dict(sinks)

    def run(self) -> None:
        """Until all descriptors have ended."""
        with selectors.DefaultSelector() as selector:
            for descriptor, sink in self._sinks.items():
                selector.register(descriptor, selectors.EVENT_READ, sink)
            while selector.get_map():
                for key, _ in selector.select():
                    self._move(selector, key)

    def _move(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, _CHUNK)
        if data:
            key.data(data)
        else:
            selector.unregister(key.fd)
            os.close(key.fd)

"""Durations of a checkpoint by server: which of them is slow, or whether the file system is."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from afo.rpc.messages import ServerPart

_T = TypeVar("_T")


class Stream:
    """Something of one server on its way into a file. For one thread."""

    def __init__(self) -> None:
        self.bytes = 0
        self.read_s = 0.0

    def ask(self, question: Callable[[], _T]) -> _T:
        """The answer; the time until it is there counts as read."""
        began = time.monotonic()
        answer = question()
        self.read_s += time.monotonic() - began
        return answer

    def read(self, blocks: Iterable[_T]) -> Iterator[_T]:
        """The same blocks, each asked for when it is wanted."""
        following = iter(blocks)
        while (block := self.ask(lambda: next(following, None))) is not None:
            yield block


class SaveTimes:
    """Adds up what the streams of one checkpoint took. Streams that ran at the same time are added as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[int, ServerPart] = {}

    @contextmanager
    def stream(self, server: int) -> Iterator[Stream]:
        """A part of `server` is saved meanwhile: what it does not wait for the server, it waits for the file system."""
        began, stream = time.monotonic(), Stream()
        yield stream
        written_s = time.monotonic() - began - stream.read_s
        self.add(ServerPart(server=server, bytes=stream.bytes, read_s=stream.read_s, write_s=written_s))

    def add(self, part: ServerPart) -> None:
        """What was measured elsewhere, or here."""
        with self._lock:
            before = self._parts.get(part.server, ServerPart(server=part.server))
            self._parts[part.server] = ServerPart(
                server=part.server,
                bytes=before.bytes + part.bytes,
                read_s=round(before.read_s + part.read_s, 3),
                write_s=round(before.write_s + part.write_s, 3),
            )

    def parts(self) -> tuple[ServerPart, ...]:
        """All servers that anything was saved of, in order."""
        with self._lock:
            return tuple(self._parts[server] for server in sorted(self._parts))

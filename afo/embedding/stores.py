"""A server's store to whoever builds a step: each call is an operation there, or is noted for a message."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from afo.embedding.calls import Recording


class Store(Protocol):
    """The store of one server."""

    def call(self, function: str, *arguments: Any, **attributes: Any) -> Any:
        """Have it done there; the functions are those of afo/core/calls.h.

        `arguments` are arrays on the server, or, a list of them each; so are the results: nothing, one, or a tuple.
        """


class Server(Protocol):
    """A server to its clients, beside what a step asks of several at once (`afo.embedding.pull_push`)."""

    def store(self) -> Store:
        """For a part of a step."""

    def trace(self, question: Callable[..., Any], *signature: Any) -> Callable[..., Any]:
        """A function of tensors of this `signature`, the answer of `question` (store, *tensors) in this process."""

    def ask_desk(self, asker: str, request: bytes) -> bytes:
        """What the desk of the server answers (`afo.tables.desk_messages`), however long it takes.

        Ends what the same `asker` has asked before.
        """


class OperationStore:
    """Of a TensorFlow server: calls are operations on the current device. They keep their order on one object."""

    def __init__(self, operations: Any, handle: Any) -> None:
        self._operations, self._handle = operations, handle

    def call(self, function: str, *arguments: Any, **attributes: Any) -> Any:
        """See `Store`."""
        return getattr(self._operations, f"afo_{function}")(self._handle, *arguments, **attributes)


class RecordedStore:
    """Of a parameter server of our own: calls go into the message that is being made."""

    def __init__(self) -> None:
        self._current = threading.local()

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        """A new message, of which the calls meanwhile are."""
        assert getattr(self._current, "recording", None) is None, "one message at a time"
        self._current.recording = recording = Recording()
        try:
            yield recording
        finally:
            self._current.recording = None

    def call(self, function: str, *arguments: Any, **attributes: Any) -> Any:
        """See `Store`."""
        recording: Recording = self._current.recording
        return recording.call(function, arguments, attributes)

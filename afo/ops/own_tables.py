"""Requests that reached this process, and the tables that each is about: C functions of afo/core/desk_functions.cc.

ctypes gives up Python's lock while they run.
"""

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afo.ops import library


class Refusal(Exception):
    """What the tables would not do: `kind` is one of those below."""

    def __init__(self, kind: int, words: str) -> None:
        super().__init__(words)
        self.kind = kind


#: The library whose functions are called, where somebody has said which.
_used: list[ctypes.CDLL] = []
#: Kinds of a `Refusal`, as the C functions have them: damaged bytes, no memory, no such table, arguments out of range.
DAMAGED, NO_MEMORY, GONE, WRONG = -2, -3, -4, -5


class _Bytes(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_int64), ("owner", ctypes.c_void_p))


class OwnTables:
    """The tables of this process that a request is about. Thread-safe until the request is answered."""

    def __init__(self, request: int) -> None:
        self._request = request
        self._library = _functions()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits for the answer any more, or the asker has asked something else."""
        return bool(self._library.afo_desk_is_stopped(self._request))

    def answer(self, answer: bytes) -> None:
        """Ends the request."""
        self._library.afo_desk_answer(self._request, answer, len(answer))

    def export_block(
        self, number: int, part: int, parts: int, size: int, since: int, cursor: int
    ) -> tuple[bytes, int]:  # fmt: skip
        """About `size` bytes of a table's rows, empty where there are none, and the cursor of the next, -1 at the end.

        Of shards `part`, `part` + `parts` and so on; `since`: an epoch, or -1 for all rows. Raises Refusal.
        """
        with self._owned() as block:
            call = self._library.afo_desk_export
            following = call(self._request, number, part, parts, size, since, cursor, ctypes.byref(block))
            content = ctypes.string_at(block.data, block.size)
        if following < -1:
            raise Refusal(following, content.decode())
        return content, following

    def import_block(self, number: int, block: bytes, *, weights_only: bool, owned: range, saved: range) -> int:
        """Overwrites what a block names of the slots that are `owned`; returns how many rows that are.

        All keys of the block are of the slots `saved`. Raises Refusal.
        """
        with self._owned() as problem:
            call = self._library.afo_desk_import
            slots = owned.start, owned.stop, saved.start, saved.stop
            rows = call(self._request, number, block, len(block), weights_only, *slots, ctypes.byref(problem))
            if rows < 0:
                raise Refusal(rows, ctypes.string_at(problem.data, problem.size).decode())
        return int(rows)

    @contextmanager
    def _owned(self) -> Iterator[Any]:
        """Bytes that the library will fill, given back at the end."""
        found = _Bytes()
        try:
            yield found
        finally:
            self._library.afo_desk_release(ctypes.byref(found))


def open_desk() -> None:
    """From now on somebody takes requests: one that comes is kept. Until `close_desk`, as often as this was called."""
    _functions().afo_desk_open()


def close_desk() -> None:
    """The other end of `open_desk`."""
    _functions().afo_desk_close()


def take(longest_s: float) -> tuple[OwnTables, bytes] | None:
    """The next request; None if there is none so long."""
    words, functions = _Bytes(), _functions()
    number = functions.afo_desk_take(int(longest_s * 1000), ctypes.byref(words))
    if not number:
        return None
    try:
        return OwnTables(number), ctypes.string_at(words.data, words.size)
    finally:
        functions.afo_desk_release(ctypes.byref(words))


def use(found: ctypes.CDLL) -> None:
    """Take the functions of this library, in a process without TensorFlow."""
    _used[:] = [_typed(found)]


def _functions() -> Any:
    return _used[0] if _used else _functions_of_operations()


@functools.cache
def _functions_of_operations() -> Any:
    import tensorflow as tf

    library.load()
    return _typed(ctypes.CDLL(str(library.find(Path(library.__file__).parent, tf.__version__))))


def _typed(found: ctypes.CDLL) -> ctypes.CDLL:
    number, given = ctypes.c_int64, ctypes.POINTER(_Bytes)
    signatures = {
        "open": (None, ()),
        "close": (None, ()),
        "take": (number, (number, given)),
        "is_stopped": (number, (number,)),
        "answer": (None, (number, ctypes.c_char_p, number)),
        "export": (number, (*[number] * 7, given)),
        "import": (number, (number, number, ctypes.c_char_p, *[number] * 6, given)),
        "release": (None, (given,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(found, f"afo_desk_{name}")
        function.restype, function.argtypes = result, arguments
    return found

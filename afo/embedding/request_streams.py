"""Streams of a save or load request: several files at a time, of which none goes on when one has failed."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from afo.errors import ProtocolError
from afo.ops.own_tables import OwnTables

#: Files that a server reads or writes at a time; each has a few blocks in memory.
STREAMS = 4

_T = TypeVar("_T")
_Item = TypeVar("_Item")


class Streams:
    """The streams of one request."""

    def __init__(self, tables: OwnTables) -> None:
        self._tables = tables
        self._broken = threading.Event()

    def run(self, do: Callable[[_Item], _T], items: Iterable[_Item]) -> list[_T]:
        """What `do` returns of each. Raises the first error, when nothing is done any more."""

        def guarded(item: _Item) -> _T:
            try:
                self.check()
                return do(item)
            except BaseException:
                self._broken.set()
                raise

        with ThreadPoolExecutor(STREAMS, thread_name_prefix="tables") as pool:
            done = [pool.submit(guarded, item) for item in items]
        errors = [error for each in done if (error := each.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _Ended)):
            raise error
        return [each.result() for each in done]

    def check(self) -> None:
        """Raises ProtocolError where a stream is not to go on: another has failed, or nobody waits for the answer."""
        if self._broken.is_set() or self._tables.is_stopped:
            raise _Ended("this request was ended before it was done: the client is gone, or another server has failed")


class _Ended(ProtocolError):
    """What a stream ends with that is not itself at fault."""

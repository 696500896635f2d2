"""A file copied to this machine by several streams: one alone waits for its DataNode most of the time.

Pieces are written where they belong in a file beside the target, which gets the target's name when it is whole. Nothing
is asked of the disk: after a crash of the machine whoever needs the copy makes it again.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import BinaryIO

from afo.errors import StorageError
from afo.storage.backend import BLOCK, temporary_name
from afo.storage.local import translate_errors

#: Streams of one file, and bytes of it for each at least: opening it takes as long as reading a few blocks.
STREAMS, _WORTH_ONE = 4, 4 * BLOCK


def copy_here(opened: Callable[[], BinaryIO], target: str, part: tuple[int, int] | None = None) -> None:
    """Copy what `opened` opens, or the bytes of a part of it, to the same places of a file at the local path `target`.

    Raises what reading raises, and StorageError.
    """
    with opened() as source, _replace_when_whole(target) as descriptor:
        copying = _Copying(part or (0, source.seek(0, os.SEEK_END)), descriptor, target)
        # This thread is one of them: a small file takes no other.
        with ThreadPoolExecutor(STREAMS, "afo-stream") as threads:
            others = [threads.submit(copying.by_another, opened) for _ in range(copying.more_streams)]
            copying.copy_from(source)
        for other in others:
            other.result()


class _Copying:
    """Streams take the next piece as they are done with their last, until one fails."""

    def __init__(self, part: tuple[int, int], descriptor: int, target: str) -> None:
        begin, self._end = part
        self._starts = iter(range(begin, self._end, BLOCK))
        self._descriptor = descriptor
        self._target = target
        self._failed = False
        self.more_streams = max(0, min(STREAMS, (self._end - begin) // _WORTH_ONE) - 1)

    def by_another(self, opened: Callable[[], BinaryIO]) -> None:
        """One more stream."""
        with opened() as source:
            self.copy_from(source)

    def copy_from(self, source: BinaryIO) -> None:
        """A stream."""
        try:
            while not self._failed and (start := next(self._starts, None)) is not None:
                source.seek(start)
                size = min(BLOCK, self._end - start)
                data = _read(source, size)
                if len(data) != size:
                    raise StorageError(f"cannot copy to {self._target}: its source was cut off meanwhile")
                self._write(data, start)
        except BaseException:
            self._failed = True
            raise

    def _write(self, data: bytes, at: int) -> None:
        with translate_errors("write", self._target):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, at)
                rest, at = rest[written:], at + written


def _read(source: BinaryIO, size: int) -> bytes:
    """Reads these bytes alone: for a short piece `read` would fill the source's whole buffer."""
    read = source.read1 if isinstance(source, io.BufferedReader) else source.read
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@contextmanager
def _replace_when_whole(target: str) -> Iterator[int]:
    temporary = temporary_name(os.path.abspath(target))
    with translate_errors("write", target):
        os.makedirs(os.path.dirname(temporary), exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
        with translate_errors("write", target):
            os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)

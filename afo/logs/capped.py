"""The output of a process: kept on disk within a cap, and its last lines in memory."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

HEAD_BYTES = 1024 * 1024
CAP_BYTES = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class _Piece(Struct, frozen=True):
    """Bytes [start, start + size) of the whole output, which lie in `path`."""

    path: Path
    start: int
    size: int


class CappedLog:
    """Keeps the first `head` bytes and the newest of the rest, at most `cap` bytes in all.

    On disk: `path` (the beginning), `path.older` and `path.newer` (the end). Written by one thread, read by another.
    A full disk loses output, never stops the process that writes it.
    """

    def __init__(self, path: Path, cap: int = CAP_BYTES, head: int = HEAD_BYTES) -> None:
        self._head = path
        self._older, self._newer = (path.with_name(f"{path.name}.{age}") for age in ("older", "newer"))
        self._head_bytes, self._segment_bytes = head, (cap - head) // 2
        self._lock = threading.Lock()
        self._pieces: dict[Path, _Piece] = {}
        #: Bytes fed so far, kept or not.
        self.total = 0
        #: Why nothing is kept any more; '' as long as it is.
        self.failure = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._begin(self._head)

    @property
    def dropped(self) -> int:
        """Bytes that are kept nowhere."""
        with self._lock:
            return self.total - sum(piece.size for piece in self._pieces.values())

    def close(self) -> None:
        """Keep no more of what comes; what is kept can still be read."""
        with self._lock:
            self.failure = self.failure or "closed"
            self._file.close()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        with self._lock:
            while data:
                data = data[self._write(data) :]

    def parts(self, limit: int) -> Iterator[bytes]:
        """At most about `limit` bytes: all if they fit, else a quarter from the beginning and the rest from the end.

        What is left out is named in a line of its own: `[afo: bytes A to B are left out]`.
        """
        with self._lock:
            total = self.total
            pieces = sorted(self._pieces.values(), key=lambda piece: piece.start)
            files = [(piece, open(piece.path, "rb")) for piece in pieces]  # noqa: SIM115 - closed below
        first = total if total <= limit else limit // 4
        last = total - (limit - first)
        position = 0
        for piece, file in files:
            with file:
                end = piece.start + piece.size
                for start, stop in ((piece.start, min(end, first)), (max(piece.start, first, last), end)):
                    if start < stop:
                        yield from _gap(position, start)
                        yield from _read(file, start - piece.start, stop - start)
                        position = stop
        yield from _gap(position, total)

    def _write(self, data: bytes) -> int:
        """Write some of `data`; returns how many bytes are dealt with. The lock is held."""
        if self.failure:
            self.total += len(data)
            return len(data)
        piece, capacity = self._current()
        try:
            written = self._file.write(data[: capacity - piece.size]) or 0
        except OSError as error:
            self.failure = f"{piece.path}: {error.strerror}"
            return 0
        self._pieces[piece.path] = _Piece(piece.path, piece.start, piece.size + written)
        self.total += written
        return written

    def _current(self) -> tuple[_Piece, int]:
        """The piece to write to and its capacity, after a change of files if the last one is full."""
        head = self._pieces[self._head]
        if head.size < self._head_bytes:
            return head, self._head_bytes
        newer = self._pieces.get(self._newer)
        if newer is not None and newer.size >= self._segment_bytes:
            self._newer.replace(self._older)
            self._pieces[self._older] = _Piece(self._older, newer.start, newer.size)
            newer = None
        return newer or self._begin(self._newer), self._segment_bytes

    def _begin(self, path: Path) -> _Piece:
        if self._pieces:
            self._file.close()
        self._file: BinaryIO = open(path, "wb", buffering=0)  # noqa: SIM115 - open as long as the log is
        self._pieces[path] = _Piece(path, self.total, 0)
        return self._pieces[path]


#: What TensorFlow 2.21 says in each process before it has a logger to be told not to.
_GREETING = (
    "All log messages before absl::InitializeLog() is called are written to STDERR",
    "oneDNN custom operations are on. You may see slightly different numerical results",
    "This TensorFlow binary is optimized to use available CPU instructions",
    "in other operations, rebuild TensorFlow with the appropriate compiler flags.",
)


class LastLines:
    """The end of a stream, for reports. Fed from one thread, read from another."""

    def __init__(self, keep: int = 64 * 1024) -> None:
        self._keep = keep
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._data = (self._data + data)[-self._keep :]

    def text(self) -> str:
        """All that is kept."""
        return self._data.decode(errors="replace")

    def lines(self, count: int = 50, width: int = 1000) -> str:
        """The last `count` lines but TensorFlow's greeting, each cut to `width` characters."""
        kept = [line for line in self.text().splitlines() if not any(greeting in line for greeting in _GREETING)]
        return "\n".join(line[:width] for line in kept[-count:])


def _gap(start: int, stop: int) -> Iterator[bytes]:
    if start < stop:
        yield f"\n[afo: bytes {start} to {stop} are left out]\n".encode()


def _read(file: BinaryIO, offset: int, size: int) -> Iterator[bytes]:
    file.seek(offset)
    while size > 0:
        data = file.read(min(size, _CHUNK))
        if not data:
            return
        size -= len(data)
        yield data

"""A range of a log, cut where its lines begin."""

from collections.abc import Iterator

from msgspec import Struct

from afo_history_server.store.job_files import JobFiles

#: Bytes of a log on one page, and at most.
RANGE = 64 << 10
MAX_RANGE = 1 << 20
#: Bytes that the last line of a range may go on beyond it.
_OVERRUN = 64 << 10


class LogLine(Struct, frozen=True):
    """A line without its end, or a part of one that is longer than a range; bytes that are no UTF-8 are replaced."""

    offset: int
    text: str


class LogRange(Struct, frozen=True):
    """The lines that begin in a range of a log of `size` bytes; they take the bytes [`start`, `stop`)."""

    lines: tuple[LogLine, ...]
    start: int
    stop: int
    size: int


def read_range(files: JobFiles, url: str, start: int | None, length: int) -> LogRange:
    """The lines that begin in the `length` bytes from `start`, or in the last ones. Raises what `afo.storage` raises.

    Each line begins in one of the ranges that lie side by side. A range in which none begins is a part of a long line.
    """
    size = files.info(url).size
    first = max(0, size - length) if start is None else min(start, size)
    with files.open(url) as file:
        file.seek(max(0, first - 1))
        before = file.read(1) if first else b"\n"
        data = file.read(length + _OVERRUN)
    skipped = 0 if before == b"\n" else data.find(b"\n", 0, length) + 1
    data = data[skipped : _end_of(data, length)]
    start = first + skipped
    # The file may have grown since its size was asked.
    return LogRange(tuple(lines_of(data, start)), start, start + len(data), max(size, start + len(data)))


def lines_of(data: bytes, start: int) -> Iterator[LogLine]:
    """Lines with their places; `data` begins at byte `start`."""
    for line in data.splitlines(keepends=True) if b"\r" not in data else _by_newline(data):
        yield LogLine(start, line.rstrip(b"\r\n").decode(errors="replace"))
        start += len(line)


def _by_newline(data: bytes) -> Iterator[bytes]:
    """A progress bar's carriage returns do not end a line."""
    parts = data.split(b"\n")
    yield from (part + b"\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def _end_of(data: bytes, length: int) -> int:
    """Behind the line in which the range ends."""
    if len(data) <= length or data[length - 1 : length] == b"\n":
        return length
    newline = data.find(b"\n", length)
    return newline + 1 if newline >= 0 else length if b"\n" not in data else len(data)

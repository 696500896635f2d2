"""Finding a place in a log: by its words, by what looks like an error, by time. Each look is bounded."""

import datetime
import re
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from afo_history_server.logs.log_range import LogLine, lines_of

#: Bytes that one search reads, lines that it finds, and bytes of a line that it looks at.
SEARCHED = 64 << 20
FOUND = 200
_CHUNK = 1 << 20
_LINE = 64 << 10
#: Bytes that are read at a time when a time is looked for, and looks at most.
_LOOK = 64 << 10
_LOOKS = 64
#: No stamp is longer; one that a look cuts is found by it as well.
_STAMP = 64

#: What Python, TensorFlow, Java and shells write when something went wrong.
ERRORS = re.compile(
    rb"^Traceback \(most recent call last\)|^[\w.]*(?:Error|Exception)\b|\b(?:ERROR|FATAL|CRITICAL)\b|^[EF]\d{4} |"
    rb"^F \d|core dumped|Segmentation fault|Killed$|No space left on device|Out of memory",
    re.MULTILINE,
)
_STAMPS = re.compile(
    rb"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)"
    rb"|^[IWEF]\d{4} 00:00:(?P<epoch>1\d{9})\."  # absl before it is initialised
    rb"|^[IWEF](?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d)",  # glog, which writes no year
    re.MULTILINE,
)


class Search(Struct, frozen=True):
    """Lines that were found in the bytes [`start`, `stop`) of a log of `size` bytes."""

    lines: tuple[LogLine, ...]
    start: int
    stop: int
    size: int

    @property
    def whole(self) -> bool:
        """Nothing is left to be searched."""
        return self.start <= 0


def words(text: str) -> re.Pattern[bytes]:
    """The pattern of a text as it stands; case does not matter."""
    return re.compile(re.escape(text.encode()), re.IGNORECASE)


def search(file: BinaryIO, before: int, size: int, wanted: re.Pattern[bytes], limit: int = SEARCHED) -> Search:
    """The last lines that hold `wanted` and end by the byte `before`, in their order: what went wrong stands late."""
    found: list[LogLine] = []
    start = end = min(before, size)
    for place, data in _whole_lines(file, max(0, end - limit), end):
        for line in reversed(deque(_matching(data, place, wanted), FOUND)):
            found.append(line)
            if len(found) == FOUND:
                return Search(tuple(reversed(found)), line.offset, end, size)
        start = place
    return Search(tuple(reversed(found)), start, end, size)


def _whole_lines(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of [`start`, `end`), the last one first, that begin with a line; of one longer than a piece, parts.

    What comes before the first line that begins in [`start`, `end`) is for the next search.
    """
    while end > start:
        begin = max(start, end - _CHUNK)
        file.seek(begin)
        data = file.read(end - begin)
        cut = data.find(b"\n", 0, len(data) - 1) + 1 if begin else 0
        yield begin + cut, data[cut:]
        end = begin + cut if begin > start else start


def _matching(data: bytes, place: int, wanted: re.Pattern[bytes]) -> Iterator[LogLine]:
    end = 0
    for match in wanted.finditer(data):
        if match.start() < end:
            continue  # in the line before
        begin = data.rfind(b"\n", 0, match.start()) + 1
        newline = data.find(b"\n", match.end())
        end = newline + 1 if newline >= 0 else len(data)
        yield next(lines_of(data[begin : min(end, begin + _LINE)], place + begin))


def place_of_time(file: BinaryIO, size: int, moment: float, year: int) -> int:
    """Where the first line of `moment` (seconds since 1970) or later begins, by halving; lines without a time follow.

    Times are taken for UTC, which is what afo's own containers write; `year` is that of stamps without one.
    """
    low, high = 0, size
    for _ in range(_LOOKS):
        if high - low <= _LOOK:
            break
        middle = (low + high) // 2
        stamped = next(_find_stamps(file, middle, high, year), None)
        if stamped is None or stamped[1] >= moment:
            high = middle
        else:
            low = stamped[0]
    return next((place for place, time in _find_stamps(file, low, size, year) if time >= moment), high)


def _find_stamps(file: BinaryIO, start: int, end: int, year: int) -> Iterator[tuple[int, float]]:
    """Lines with a time, in their order, within so many looks."""
    for begin in range(start, min(end, start + _LOOKS * _LOOK), _LOOK):
        file.seek(begin)
        data = file.read(min(_LOOK + _STAMP, end - begin))
        for match in _STAMPS.finditer(data):
            time = _seconds(match, year) if match.start() < _LOOK else None
            if time is not None:
                yield begin + data.rfind(b"\n", 0, match.start()) + 1, time


def _seconds(match: re.Match[bytes], year: int) -> float | None:
    parts = {name: value.decode() for name, value in match.groupdict().items() if value}
    if "epoch" in parts:
        return float(parts["epoch"])
    day = parts.get("date") or f"{year}-{parts['day'][:2]}-{parts['day'][2:]}"
    try:
        clock = parts.get("time") or parts["clock"]
        return datetime.datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()
    except ValueError:  # the 31st of a month without one
        return None

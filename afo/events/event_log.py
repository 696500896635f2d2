"""The event log: one JSON line an event; the AM's journal, and what `afo events`, the history server and tests read.

The state of a job is a function of its events (`afo_am.state.job_state`). A reader ignores a last line without its
newline and keeps events of a type it does not know (`Unknown`), so that an older reader can read a newer log. A line
ends with a checksum of what stands before it; one that has been damaged holds no record for any reader.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c
import msgspec
from msgspec import Struct

from afo import storage
from afo.errors import DataError
from afo.events.types import AnyEvent
from afo.formats.decoding import UNDECODABLE, check_bounds, require_bounded

#: Version of the log's format. In 1 lines had no checksum, and each segment began with `seq` 1. From 3 on it tells when
#: tasks are at work (`TaskAtWork`). Until then the number of a split was called `row`. From 5 on the splits are in
#: `SplitsAdded`, which were in `JobStarted`.
VERSION, TELLS_WORK, HAS_ROWS = 5, 3, 3
#: Bytes of the longest line that is read, of the longest one that is passed over, and of one job's log. An event that
#: names each file of a job has a hundred bytes for each.
MAX_LINE = 64 << 20
MAX_PASSED = 256 << 20
MAX_LOG = 512 << 20
#: Lines of one job's log that hold no record. An AM leaves a few where a disk fails.
MAX_DAMAGED = 10_000

#: The beginning of a line whose event names each split of the job, and so may be long in an honest log.
_NAMES_SPLITS = re.compile(
    rb'\{"v":\d+,"seq":\d+,"am_attempt":\d+,"incarnation":\d+,"time":[^,]+,'
    rb'"event":\{"type":"(?:JobStarted|CheckpointWritten|VariablesReady)"'
)
#: The end of the year 9999, the last one that dates have.
_END = 253_402_300_800.0
#: Of a line of that time, what stands before that number.
_BEFORE_ROW = re.compile(rb'("event":\{"type":"Split(?:Leased|Done)","task":\{[^{}]*\},)"row":')
_CHECKSUM = re.compile(rb',"crc32c":"([0-9a-f]{8})"}')
_CHECKSUM_SIZE = len(b',"crc32c":"00000000"}')
#: The polynomial of CRC-32C, lowest bit first: by what the checksum differs if the last bit is another one.
_POLYNOMIAL = 0x82F63B78


class Unknown(Struct, frozen=True):
    """An event of a type that this version does not know, kept as it was."""

    type: str
    raw: dict[str, object]


class Record(Struct, frozen=True, kw_only=True):
    """One line: an event and where it stands.

    `seq` is 1 for the first event of a job and grows by one with each, across segments; `time` is the wall clock in
    seconds since 1970.
    """

    v: int = VERSION
    seq: int
    am_attempt: int
    incarnation: int
    time: float
    event: AnyEvent


class UnknownRecord(Struct, frozen=True, kw_only=True):
    """A line whose event this version does not know."""

    v: int
    seq: int
    am_attempt: int
    incarnation: int
    time: float
    event: Unknown


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_raw_decoder = msgspec.json.Decoder()


def encode_line(record: Record) -> bytes:
    """One line with its newline."""
    return seal(_encoder.encode(record)) + b"\n"


def seal(json_object: bytes) -> bytes:
    """A JSON object with its checksum as the last member."""
    body = json_object.removesuffix(b"}")
    return body + _checksum(body)


def decode_line(line: bytes) -> Record | UnknownRecord | None:
    """The record of a line, with its newline or without; None when it is no record (torn, damaged or foreign).

    Nor is it one with a time before 1970 or beyond the year 9999, or with what `afo.formats.decoding` bounds.
    """
    line = line.removesuffix(b"\n")
    record = _decode_record(line)
    intact = record is not None and 0 <= record.time < _END and _is_intact(line, record.v)
    return record if intact else None


def repair_line(line: bytes) -> bytes | None:
    """A damaged line as it was, if one bit of it or of its newline has flipped; None after any other damage.

    CRC-32C tells apart any two lines that differ in fewer than four bits, or in an odd number of them.
    """
    if _is_intact(line[:-1], VERSION):
        return line[:-1]
    body, end = line[:-_CHECKSUM_SIZE], line[-_CHECKSUM_SIZE:]
    right = _checksum(body)
    if (int.from_bytes(end) ^ int.from_bytes(right)).bit_count() == 1:
        return body + right
    if (stated := _CHECKSUM.fullmatch(end)) is None:
        return None
    bit = _find_flipped_bit(len(body) * 8, google_crc32c.value(body) ^ int(stated[1], 16))
    return None if bit is None else (int.from_bytes(body) ^ 1 << bit).to_bytes(len(body)) + end


def split_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines, and the rest behind the last newline (a line still being written)."""
    *lines, rest = data.split(b"\n")
    return lines, rest


def read_log(events_dir: str) -> Iterator[Record | UnknownRecord]:
    """All records of a job in the order of their segments.

    Raises `DataError` for a log beyond `LogReader`'s bounds, and what `afo.storage` raises.
    """
    log = LogReader()
    for info in sorted(storage.list_dir(events_dir), key=lambda info: info.url):
        with storage.open_input(info.url) as file:
            yield from log.take(info.url, file)
    if log.stopped:
        raise DataError(f"{events_dir}: the event log is not read to its end: {log.stopped}")


class LogReader:
    """Takes in the segments of one job's log as they grow. Whatever lies there, memory, bytes and lines are bounded.

    A last line without its newline is left for the next time. Longer lines than `max_other` hold no record for this
    reader, unless their event names each split.
    """

    def __init__(self, max_log: int = MAX_LOG, max_line: int = MAX_LINE, max_other: int = MAX_LINE) -> None:
        self._max_log, self._max_line, self._max_other = max_log, max_line, max_other
        #: Of each segment, the bytes that are dealt with.
        self._taken: dict[str, int] = {}
        #: Where these end within a line that is too long: how much of it they hold.
        self._passed: dict[str, int] = {}
        #: Bytes that were read.
        self.read = 0
        self._without_record = 0
        #: Lines that hold no record, empty ones aside.
        self.damaged = 0
        #: Why the rest of the log is not read; '' while all of it is.
        self.stopped = ""

    def take(self, segment: str, file: BinaryIO) -> Iterator[Record | UnknownRecord]:
        """The records that came since the last time. Raises what reading the file raises."""
        file.seek(self._taken.get(segment, 0))
        while not self.stopped and (line := file.readline(self._max_line)):
            ends = line.endswith(b"\n")
            self._count(len(line))
            if not ends and len(line) < self._max_line:
                return
            self._taken[segment] = self._taken.get(segment, 0) + len(line)
            if not ends:
                self._pass_over(segment, len(line))
            elif self._passed.pop(segment, 0):
                self._miss(empty=False)
            elif (record := self._decode(line)) is not None:
                yield record
            else:
                self._miss(empty=not line.strip())

    def _decode(self, line: bytes) -> Record | UnknownRecord | None:
        too_long = len(line) > self._max_other and not _NAMES_SPLITS.match(line)
        return None if too_long else decode_line(line)

    def _count(self, size: int) -> None:
        """What is read again, because its newline had not come, is counted again."""
        self.read += size
        if self.read > self._max_log:
            self.stopped = f"it is longer than {self._max_log} bytes"

    def _pass_over(self, segment: str, size: int) -> None:
        self._passed[segment] = self._passed.get(segment, 0) + size
        if self._passed[segment] > MAX_PASSED:
            self.stopped = f"a line of it is longer than {MAX_PASSED} bytes"

    def _miss(self, *, empty: bool) -> None:
        self.damaged += not empty
        self._without_record += 1
        if self._without_record > MAX_DAMAGED:
            self.stopped = f"more than {MAX_DAMAGED:,} lines of it hold no event"


def _decode_record(line: bytes) -> Record | UnknownRecord | None:
    try:
        return require_bounded(_decoder.decode(line), line)
    except UNDECODABLE:
        pass
    if (record := _with_row(line)) is not None:
        return record
    try:
        check_bounds(raw := _raw_decoder.decode(line))
        event = raw.pop("event")
        return msgspec.convert({**raw, "event": {"type": str(event["type"]), "raw": event}}, UnknownRecord)
    except (*UNDECODABLE, KeyError, TypeError, AttributeError):
        return None


def _with_row(line: bytes) -> Record | None:
    renamed, found = _BEFORE_ROW.subn(rb'\1"split":', line, count=1)
    try:
        record = require_bounded(_decoder.decode(renamed), renamed) if found else None
    except UNDECODABLE:
        return None
    return record if record is not None and record.v <= HAS_ROWS else None


def _checksum(body: bytes) -> bytes:
    return b',"crc32c":"%08x"}' % google_crc32c.value(body)


def _is_intact(line: bytes, version: int) -> bool:
    body, end = line[:-_CHECKSUM_SIZE], line[-_CHECKSUM_SIZE:]
    if version > 1:
        return end == _checksum(body)
    return not _CHECKSUM.fullmatch(end)  # else it says by mistake that it is older


def _find_flipped_bit(bits: int, difference: int) -> int | None:
    """Which of so many bits, counted from the end of the line, has flipped, if that changes the checksum like this."""
    change = _POLYNOMIAL
    for number in range(bits):
        if change == difference:
            # The checksum takes the lowest bit of a byte first, so the last one is the highest of the last byte.
            return number // 8 * 8 + 7 - number % 8
        change = change >> 1 ^ (_POLYNOMIAL if change & 1 else 0)
    return None

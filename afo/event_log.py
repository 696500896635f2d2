"""The event log: one JSON line an event; the AM's journal, and what `afo events`, the history server and tests read.

The state of a job is a function of its events (`afo_am.state`). A reader ignores a last line without its newline and
keeps events of a type it does not know (`Unknown`), so that an older reader can read a newer log.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from afo import storage
from afo.decoding import UNDECODABLE
from afo.events import AnyEvent

#: Version of the log's format.
VERSION = 1


class Unknown(Struct, frozen=True):
    """An event of a type that this version does not know, kept as it was."""

    type: str
    raw: dict[str, object]


class Record(Struct, frozen=True, kw_only=True):
    """One line: an event and where it stands. `time` is the wall clock in seconds since 1970."""

    v: int
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
    return _encoder.encode(record) + b"\n"


def decode_line(line: bytes) -> Record | UnknownRecord | None:
    """The record of a line, or None when it is no record at all (a torn or foreign line)."""
    try:
        return _decoder.decode(line)
    except UNDECODABLE:
        pass
    try:
        raw = _raw_decoder.decode(line)
        event = raw.pop("event")
        return msgspec.convert({**raw, "event": {"type": str(event["type"]), "raw": event}}, UnknownRecord)
    except (*UNDECODABLE, KeyError, TypeError, AttributeError):
        return None


def split_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines, and the rest behind the last newline (a line still being written)."""
    *lines, rest = data.split(b"\n")
    return lines, rest


def read_log(events_dir: str) -> Iterator[Record | UnknownRecord]:
    """All records of a job in the order of their segments. Raises what `afo.storage` raises."""
    for info in sorted(storage.list_dir(events_dir), key=lambda info: info.url):
        lines, _ = split_lines(storage.read_bytes(info.url))
        for line in lines:
            record = decode_line(line)
            if record is not None:
                yield record

"""The newest events of a job, kept as JSON texts: values of a text may take twenty times its bytes. Pure."""

from collections import deque

import msgspec

from afo.events.event_log import Unknown, UnknownRecord
from afo_history_server.model.job_history import AnyRecord

#: Events that are kept, the bytes of their texts together, and of one.
KEPT_EVENTS = 500
KEPT_BYTES, MAX_KEPT = 1 << 20, 64 << 10

_encoder = msgspec.json.Encoder()


class NewestEvents:
    """Takes records with their texts, in their order."""

    def __init__(self) -> None:
        self._texts: deque[tuple[type[AnyRecord], bytes]] = deque()
        self._bytes = 0

    def add(self, record: AnyRecord, text: bytes) -> None:
        """Keep a record; of one with a long text only its type and how long that is."""
        if len(text) > MAX_KEPT:
            record = _left_out(record, len(text))
            text = encode(record)
        self._texts.append((type(record), text))
        self._bytes += len(text)
        while len(self._texts) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._texts.popleft()[1])

    def records(self) -> tuple[AnyRecord, ...]:
        """Those that are kept, newest first."""
        return tuple(msgspec.json.decode(text, type=kind) for kind, text in reversed(self._texts))


def encode(record: AnyRecord) -> bytes:
    """The text of a record."""
    return _encoder.encode(record)


def _left_out(record: AnyRecord, size: int) -> UnknownRecord:
    event = record.event
    kind = event.type if isinstance(event, Unknown) else str(type(event).__struct_config__.tag)
    kind = kind if len(kind) < MAX_KEPT else ""
    return UnknownRecord(
        v=record.v, seq=record.seq, am_attempt=record.am_attempt, incarnation=record.incarnation, time=record.time,
        event=Unknown(kind, {"type": kind, "left_out": f"{size} bytes"}),
    )  # fmt: skip

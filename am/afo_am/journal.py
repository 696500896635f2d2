"""The journal: the AM's event log, durable before what it says is done."""

import logging
import time
from collections.abc import Iterable, Iterator

from afo import event_log, storage
from afo import events as ev
from afo.errors import NotFound, OutOfDescriptors
from afo.paths import JobPaths

log = logging.getLogger("afo.am")

#: How long a write waits while no file can be opened.
DESCRIPTOR_PATIENCE_S = 60.0


class Journal:
    """Writes one segment; each start of the AM has its own, so no two writers ever share a file."""

    def __init__(self, paths: JobPaths, am_attempt: int, incarnation: int) -> None:
        self._url = paths.events_segment(am_attempt, incarnation)
        self._am_attempt = am_attempt
        self._incarnation = incarnation
        self._seq = 0

    def write(self, events: Iterable[tuple[ev.AnyEvent, float]]) -> None:
        """Append events with their wall clock times; durable when it returns."""
        lines = b"".join(event_log.encode_line(self._record(event, time)) for event, time in events)
        if lines:
            self._append(lines)

    def _append(self, lines: bytes) -> None:
        """Waits for a descriptor: an AM that ended for want of one would begin again in the same straits."""
        deadline = time.monotonic() + DESCRIPTOR_PATIENCE_S
        while True:
            try:
                return storage.append(self._url, lines)
            except OutOfDescriptors as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("trying again: %s", error)
            time.sleep(0.2)

    def _record(self, event: ev.AnyEvent, time: float) -> event_log.Record:
        self._seq += 1
        return event_log.Record(
            v=event_log.VERSION, seq=self._seq, am_attempt=self._am_attempt, incarnation=self._incarnation, time=time,
            event=event,
        )  # fmt: skip


def earlier_records(paths: JobPaths) -> Iterator[event_log.Record]:
    """What former starts of the AM wrote; nothing for a new job. Whoever of them still lives can write no more."""
    try:
        for segment in storage.list_dir(paths.events):
            # A start that was killed while it wrote has left its file open: unreadable until it is taken over.
            storage.take_over(segment.url)
        yield from (record for record in event_log.read_log(paths.events) if isinstance(record, event_log.Record))
    except NotFound:
        return

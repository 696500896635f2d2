"""Reads the event log as it grows: every poll returns the records that came since the last one."""

from typing import BinaryIO

from afo import event_log, storage
from afo.decoding import MOST_BYTES
from afo.errors import DataError, NotFound
from afo.growing_log import PATIENCE_S, GrowingLog


class EventTail:
    """A position in a job's event log. A torn last line is left for the next poll."""

    def __init__(self, events_dir: str) -> None:
        self._dir = events_dir
        self._log = GrowingLog()
        #: Bytes of complete lines taken from each segment.
        self._taken: dict[str, int] = {}
        #: Complete lines that hold no record.
        self.damaged = 0

    def poll(self) -> list[event_log.Record | event_log.UnknownRecord]:
        """New records in order; none while there is no log.

        Raises `DataError` for a line of over `MOST_BYTES`, and what `afo.storage` raises.
        """
        try:
            segments = sorted((each for each in storage.list_dir(self._dir) if not each.is_dir), key=lambda it: it.url)
        except NotFound:
            return []
        grown = self._log.grown(segments, lambda url: storage.open_input(url, PATIENCE_S))
        return [record for segment, file in grown for record in self._take(segment, file)]

    @property
    def unread(self) -> str:
        """The segment that could not be read at the last poll, see `GrowingLog`."""
        return self._log.unread

    @property
    def damage(self) -> str:
        """A sentence about lines that cannot be read; '' if there are none."""
        if not self.damaged:
            return ""
        lines = "1 line of the event log is" if self.damaged == 1 else f"{self.damaged:,} lines of the event log are"
        return f"{lines} damaged and left out"

    def _take(self, segment: str, file: BinaryIO) -> list[event_log.Record | event_log.UnknownRecord]:
        records, more = list[event_log.Record | event_log.UnknownRecord](), True
        while more:
            place = file.seek(self._taken.get(segment, 0))
            lines, rest = event_log.split_lines(data := file.read(MOST_BYTES))
            more = len(data) == MOST_BYTES
            if more and not lines:
                raise DataError(f"{segment}: no event ends within {MOST_BYTES:,} bytes from byte {place:,} on")
            self._taken[segment] = place + len(data) - len(rest)
            records += self._decoded([line for line in lines if line.strip()])
        return records

    def _decoded(self, lines: list[bytes]) -> list[event_log.Record | event_log.UnknownRecord]:
        records = [record for record in map(event_log.decode_line, lines) if record is not None]
        self.damaged += len(lines) - len(records)
        return records

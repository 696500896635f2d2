"""Reads the event log as it grows: every poll returns the records that came since the last one."""

from afo import event_log, storage
from afo.errors import NotFound


class EventTail:
    """A position in a job's event log. A torn last line is left for the next poll."""

    def __init__(self, events_dir: str) -> None:
        self._dir = events_dir
        #: Bytes of complete lines taken from each segment.
        self._taken: dict[str, int] = {}

    def poll(self) -> list[event_log.Record | event_log.UnknownRecord]:
        """New records in order; none while there is no log. Raises what `afo.storage` raises."""
        try:
            segments = sorted(info.url for info in storage.list_dir(self._dir) if not info.is_dir)
        except NotFound:
            return []
        return [record for segment in segments for record in self._poll_segment(segment)]

    def _poll_segment(self, segment: str) -> list[event_log.Record | event_log.UnknownRecord]:
        with storage.open_input(segment) as file:
            file.seek(self._taken.get(segment, 0))
            lines, rest = event_log.split_lines(data := file.read())
        self._taken[segment] = self._taken.get(segment, 0) + len(data) - len(rest)
        return [record for record in map(event_log.decode_line, lines) if record is not None]

"""Tail of an event log: every poll returns the records that came since the last one."""

from afo import storage
from afo.errors import NotFound
from afo.events import event_log
from afo.events.log_tail import PATIENCE_S, GrowingLog


class EventTail:
    """A position in a job's event log. A torn last line is left for the next poll."""

    def __init__(self, events_dir: str) -> None:
        self._dir = events_dir
        self._log = GrowingLog()
        self._reader = event_log.LogReader()

    def poll(self) -> list[event_log.Record | event_log.UnknownRecord]:
        """New records in order, within `LogReader`'s bounds; none while there is no log.

        Raises what `afo.storage` raises.
        """
        try:
            segments = sorted((each for each in storage.list_dir(self._dir) if not each.is_dir), key=lambda it: it.url)
        except NotFound:
            return []
        grown = self._log.grown(segments, lambda url: storage.open_input(url, PATIENCE_S))
        return [record for segment, file in grown for record in self._reader.take(segment, file)]

    @property
    def unread(self) -> str:
        """The segment that could not be read at the last poll, see `GrowingLog`."""
        return self._log.unread

    @property
    def damage(self) -> str:
        """A sentence about lines that cannot be read; '' if there are none."""
        count, stopped = self._reader.damaged, self._reader.stopped
        lines = "1 line of the event log is" if count == 1 else f"{count:,} lines of the event log are"
        parts = [f"{lines} damaged and left out"] if count else []
        return "; ".join([*parts, f"the rest of the event log is not read: {stopped}"] if stopped else parts)

"""Reader of a job's event log as it grows, whatever its lines hold."""

from collections.abc import Iterator

from afo.errors import NotFound
from afo.events import event_log
from afo.events.log_tail import GrowingLog
from afo.storage import FileInfo
from afo_history_server.store.job_files import JobFiles

#: No longer line is read: requests read logs side by side, and what a line holds takes many times its bytes.
MAX_LINE = 16 << 20


class EventLog:
    """A position in a job's log. A last line without its newline is left for the next time."""

    def __init__(self, files: JobFiles, events_url: str, max_log: int = event_log.MAX_LOG) -> None:
        self._files, self._url = files, events_url
        self._log = GrowingLog()
        self._lines = event_log.LogReader(max_log, MAX_LINE)

    @property
    def unreadable(self) -> int:
        """Complete lines that hold no record."""
        return self._lines.damaged

    @property
    def cut(self) -> str:
        """Why the rest of the log is not read; '' while all of it is."""
        return self._lines.stopped

    def poll(self) -> Iterator[event_log.Record | event_log.UnknownRecord]:
        """Records that came since the last time, in order. Raises what `afo.storage` raises."""
        if self.cut:
            return
        try:
            segments = [info for info in self._files.list_dir(self._url) if _is_segment(info)]
        except NotFound:
            return
        for segment, file in self._log.grown(segments, self._files.open):
            yield from self._lines.take(segment, file)


def _is_segment(info: FileInfo) -> bool:
    return not info.is_dir and info.url.endswith(".jsonl")

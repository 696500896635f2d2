"""Reads a job's event log as it grows, whatever its lines hold."""

from collections.abc import Iterator
from typing import BinaryIO

from afo import event_log
from afo.errors import NotFound
from afo.growing_log import GrowingLog
from afo.storage import FileInfo
from afo_history_server.job_files import JobFiles

#: No event is longer; a longer line is passed over.
MAX_LINE = 4 << 20
#: Bytes read of one job's log; the rest of a longer one is left out, and said so.
MAX_LOG = 512 << 20


class EventLog:
    """A position in a job's log. A last line without its newline is left for the next time."""

    def __init__(self, files: JobFiles, events_url: str, max_log: int = MAX_LOG) -> None:
        self._files, self._url, self._max_log = files, events_url, max_log
        self._log = GrowingLog()
        #: Bytes of each segment that are dealt with; they end at a newline.
        self._taken: dict[str, int] = {}
        #: Complete lines that hold no record.
        self.unreadable = 0
        #: True once the log was longer than `max_log`.
        self.cut = False

    def poll(self) -> Iterator[event_log.Record | event_log.UnknownRecord]:
        """Records that came since the last time, in order. Raises what `afo.storage` raises."""
        try:
            segments = [info for info in self._files.list_dir(self._url) if _is_segment(info)]
        except NotFound:
            return
        for segment, file in self._log.grown(segments, self._files.open):
            yield from self._poll_segment(segment, file)

    def _poll_segment(self, segment: str, file: BinaryIO) -> Iterator[event_log.Record | event_log.UnknownRecord]:
        file.seek(self._taken.setdefault(segment, 0))
        while not self.cut and (size := _next_line(file, parts := bytearray())):
            self._taken[segment] += size
            self.cut = sum(self._taken.values()) > self._max_log
            record = event_log.decode_line(bytes(parts)) if len(parts) == size else None
            if record is not None:
                yield record
            elif parts.strip():
                self.unreadable += 1


def _is_segment(info: FileInfo) -> bool:
    return not info.is_dir and info.url.endswith(".jsonl")


def _next_line(file: BinaryIO, parts: bytearray) -> int:
    """Size of the next complete line, 0 if there is none; its first `MAX_LINE` bytes go into `parts`."""
    size = 0
    while part := file.readline(MAX_LINE):
        size += len(part)
        if not parts:
            parts += part
        if part.endswith(b"\n"):
            return size
    return 0

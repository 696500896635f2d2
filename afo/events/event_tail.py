"""Tail of an event log, whatever its lines hold: every poll reads what came since the last one."""

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Protocol

from afo import storage
from afo.errors import NotFound, StillOpen
from afo.events import event_log
from afo.storage import FileInfo

#: Seconds that such a reader waits for a writer: an append takes less than a tenth of one, and there is a next look.
PATIENCE_S = 2.0


class Files(Protocol):
    """Where the log lies."""

    def list_dir(self, url: str) -> Iterable[FileInfo]:
        """Raises what `afo.storage.list_dir` raises."""

    def open(self, url: str) -> BinaryIO:
        """Raises what `afo.storage.open_input` raises."""


class _Storage:
    """Any files at all: of a job that the user of this process has named."""

    def list_dir(self, url: str) -> Iterable[FileInfo]:
        return storage.list_dir(url)

    def open(self, url: str) -> BinaryIO:
        return storage.open_input(url, PATIENCE_S)


class EventTail:
    """A position in a job's event log. A last line without its newline is left for the next poll."""

    def __init__(
        self, url: str, files: Files | None = None, max_log: int = event_log.MAX_LOG,
        max_line: int = event_log.MAX_LINE, max_other: int = event_log.MAX_LINE,
    ) -> None:  # fmt: skip
        """`url`: directory of the segments. Bounds in bytes, see `event_log.LogReader`."""
        self._url, self._files = url, files or _Storage()
        self._segments = GrowingSegments()
        self._reader = event_log.LogReader(max_log, max_line, max_other)

    def poll(self) -> Iterator[event_log.Record | event_log.UnknownRecord]:
        """New records in order; none while there is no log, or it was stopped. Raises what `files` raise.

        Whoever takes only some of them gets the others from the next poll.
        """
        if self.stopped:
            return
        try:
            segments = sorted((entry for entry in self._files.list_dir(self._url) if _is_segment(entry)), key=_url)
        except NotFound:
            return
        for segment, file in self._segments.open_grown(segments, self._files.open):
            yield from self._reader.take(segment, file)

    @property
    def damaged(self) -> int:
        """Complete lines that hold no record."""
        return self._reader.damaged

    @property
    def read(self) -> int:
        """Bytes that were read so far."""
        return self._reader.read

    @property
    def stopped(self) -> str:
        """Why the rest of the log is not read; '' while all of it is."""
        return self._reader.stopped

    @property
    def unread(self) -> str:
        """The segment that could not be read at the last poll, see `GrowingSegments`."""
        return self._segments.unread

    @property
    def damage(self) -> str:
        """A sentence about lines that cannot be read; '' if there are none."""
        lines = "1 line of the event log is" if self.damaged == 1 else f"{self.damaged:,} lines of the event log are"
        parts = [f"{lines} damaged and left out"] if self.damaged else []
        rest = [f"the rest of the event log is not read: {self.stopped}"] if self.stopped else []
        return "; ".join(parts + rest)


class GrowingSegments:
    """Which segments have something new; one that has the size and time of the last look is not opened."""

    def __init__(self) -> None:
        #: The time as well: that of a file that was open changes when it is closed, with or without more in it.
        self._seen: dict[str, tuple[int, float]] = {}
        #: The segment that could not be read at the last look: its writer has it open, or died with it open. In HDFS
        #: it stays so until somebody takes it over or the NameNode ends the lease. Empty where all was read.
        self.unread = ""

    def open_grown(
        self, segments: Iterable[FileInfo], open_input: Callable[[str], BinaryIO]
    ) -> Iterator[tuple[str, BinaryIO]]:
        """(URL, file) of each segment that grew, in their order; none behind one that cannot be read.

        Raises what `open_input` raises, but for `StillOpen`.
        """
        for info in segments:
            now = (info.size, info.modified)
            if self._seen.get(info.url) != now:
                self.unread = ""
                try:
                    file = open_input(info.url)
                except StillOpen:
                    self.unread = info.url
                else:
                    with file:
                        yield info.url, file
                # Not of what was read since, which may be more: then it is opened once in vain.
                self._seen[info.url] = now
            if self.unread == info.url:
                return


def _is_segment(info: FileInfo) -> bool:
    return not info.is_dir and info.url.endswith(".jsonl")


def _url(info: FileInfo) -> str:
    return info.url

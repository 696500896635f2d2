"""Tail of a log in segments, for readers that look again and again."""

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from afo.errors import StillOpen
from afo.storage import FileInfo

#: Seconds that such a reader waits for a writer: an append takes less than a tenth of one, and there is a next look.
PATIENCE_S = 2.0


class GrowingLog:
    """Which segments have something new; one that has the size and time of the last look is not opened."""

    def __init__(self) -> None:
        #: The time as well: that of a file that was open changes when it is closed, with or without more in it.
        self._seen: dict[str, tuple[int, float]] = {}
        #: The segment that could not be read at the last look: its writer has it open, or died with it open. In HDFS
        #: it stays so until somebody takes it over or the NameNode ends the lease. Empty where all was read.
        self.unread = ""

    def grown(
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

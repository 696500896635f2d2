"""The newest progress of the TensorFlow process, from the JSON lines in its pipe."""

import msgspec

from afo.formats.decoding import UNDECODABLE
from afo.protocol.train_task import Progress

#: Longer lines are no progress reports; bounds the memory that a broken writer can take.
MAX_LINE = 64 * 1024


class ProgressReader:
    """Fed with what comes out of the pipe. Lines that are no `Progress` are counted and otherwise ignored."""

    def __init__(self) -> None:
        self.newest: Progress | None = None
        self.malformed = 0
        self._decoder = msgspec.json.Decoder(Progress)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > MAX_LINE:
            self.malformed += 1
            self._rest = b""

    def _take(self, line: bytes) -> None:
        try:
            self.newest = self._decoder.decode(line)
        except UNDECODABLE:
            self.malformed += 1

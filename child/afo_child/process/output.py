"""Output of a task's processes: pumped out of their pipes, so that they never wait for a reader, and kept.

What they write is on disk, in memory for reports, and on its way to the job's directory. Their progress comes as JSON
lines in a pipe of its own.
"""

import os
import selectors
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from afo.formats.decoding import UNDECODABLE
from afo.logs.capped import CappedLog, LastLines
from afo.logs.upload import LogUploader
from afo.protocol.train_task import Progress

_CHUNK = 64 * 1024

Sink = Callable[[bytes], None]
#: Longer lines are no progress reports; bounds the memory that a broken writer can take.
MAX_LINE = 64 * 1024


class Pump(threading.Thread):
    """Reads every descriptor until its end and closes it. Sinks are called from this thread alone, and do not raise."""

    def __init__(self, sinks: Mapping[int, Sink]) -> None:
        super().__init__(name="pump", daemon=True)
        self._sinks = dict(sinks)

    def run(self) -> None:
        """Until all descriptors have ended."""
        with selectors.DefaultSelector() as selector:
            for descriptor, sink in self._sinks.items():
                selector.register(descriptor, selectors.EVENT_READ, sink)
            while selector.get_map():
                for key, _ in selector.select():
                    self._move(selector, key)

    def _move(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, _CHUNK)
        if data:
            key.data(data)
        else:
            selector.unregister(key.fd)
            os.close(key.fd)


class Output:
    """The two streams of all processes that this Child starts, one after the other in the same files."""

    def __init__(self, work_dir: Path, url: str) -> None:
        self.url = url
        self._logs = {name: CappedLog(work_dir / "logs" / name) for name in ("stdout", "stderr")}
        self._last = {name: LastLines() for name in self._logs}
        self._uploader = LogUploader(url, self._logs)
        self._uploader.start()

    def begin_process(self) -> None:
        """Forget the last lines of the process before."""
        self._last = {name: LastLines() for name in self._logs}

    def stdout(self, data: bytes) -> None:
        """Take what the process wrote to its stdout."""
        self._feed("stdout", data)

    def stderr(self, data: bytes) -> None:
        """Take what the process wrote to its stderr."""
        self._feed("stderr", data)

    def note(self, text: str) -> None:
        """Words of the Child itself, among the lines of stderr. From any thread."""
        self._logs["stderr"].feed(f"\n[afo: {text}]\n".encode(errors="replace"))

    @property
    def total(self) -> int:
        """Bytes written so far."""
        return sum(log.total for log in self._logs.values())

    @property
    def dropped(self) -> int:
        """Bytes of them that no file holds."""
        return sum(log.dropped for log in self._logs.values())

    @property
    def error_text(self) -> str:
        """The end of stderr, to find the cause of an end in."""
        return self._last["stderr"].text()

    def last_lines(self) -> str:
        """What a user wants to see first: the last lines of stderr, or of stdout if nothing went there."""
        return self._last["stderr"].lines() or self._last["stdout"].lines()

    def close(self, timeout_s: float) -> bool:
        """Upload everything; False if that could not be done in time."""
        for log in self._logs.values():
            log.close()
        return self._uploader.finish(timeout_s)

    def _feed(self, name: str, data: bytes) -> None:
        self._logs[name].feed(data)
        self._last[name].feed(data)


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

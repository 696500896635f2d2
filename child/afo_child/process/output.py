"""Output of a task: on disk, in memory for reports, and on its way to the job's directory."""

from pathlib import Path

from afo.logs.capped import CappedLog, LastLines
from afo.logs.upload import LogUploader


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

"""The protocol of a file system. Paths are absolute strings; every error is one of `afo.errors`."""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Protocol, Self

#: Bytes moved in one call: large enough to hide a round trip, small enough for a few open files in a small container.
BLOCK = 4 << 20


@dataclass(frozen=True)
class FileInfo:
    """One file or directory."""

    url: str
    size: int  #: bytes; 0 for a directory
    modified: float  #: seconds since the epoch
    is_dir: bool
    owner: str = ""  #: its user's name
    special: str = ""  #: what else than a file or directory it is on a local disk, e.g. `a named pipe`


class Sink(Protocol):
    """An unnamed file being written: it gets its name by `commit` or vanishes by `discard`."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...


class Backend(Protocol):
    """One file system."""

    def open_input(self, path: str, patience_s: float | None) -> BinaryIO: ...
    def create(self, path: str, *, overwrite: bool, mode: int | None) -> Sink: ...
    def append(self, path: str, data: bytes) -> None: ...
    def take_over(self, path: str) -> None: ...
    def info(self, path: str) -> FileInfo: ...
    def list_dir(self, path: str) -> list[FileInfo]: ...
    def make_dirs(self, path: str, mode: int | None) -> None: ...
    def delete(self, path: str, *, recursive: bool) -> bool: ...
    def rename(self, source: str, destination: str) -> None: ...


def temporary_name(path: str) -> str:
    """A fresh name in the directory of `path` which no pattern matches (it starts with a dot)."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name[:200]}.{secrets.token_hex(6)}.tmp"


class AtomicOutput(io.BufferedIOBase):
    """Collects writes into blocks for a sink.

    The file appears under its name, whole, when it is closed. Leaving a `with` by an exception, `discard`, or
    forgetting to close leaves nothing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._pending = bytearray()
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer is wider
        if self._sink is None:
            raise ValueError("write to a closed file")
        size = memoryview(data).nbytes
        self._pending += data
        self._written += size
        if len(self._pending) >= BLOCK:
            self._drain(self._sink)
        return size

    def _drain(self, sink: Sink) -> None:
        full, self._pending = self._pending, bytearray()
        try:
            sink.write(full)
        except BaseException:
            self.discard()
            raise

    def close(self) -> None:
        if self._sink is None:
            return
        if self._pending:
            self._drain(self._sink)
        sink, self._sink = self._sink, None
        super().close()
        try:
            sink.commit()
        except BaseException:
            sink.discard()
            raise

    def discard(self) -> None:
        """Gives the file up; nothing becomes visible."""
        sink, self._sink = self._sink, None
        self._pending.clear()
        super().close()
        if sink is not None:
            sink.discard()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        # io's own finaliser would close, that is publish, a half-written file.
        if getattr(self, "_sink", None) is not None:
            self.discard()

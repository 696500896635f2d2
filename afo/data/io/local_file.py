"""A file by URL as a local path, for readers that know nothing else: TensorFlow cannot open `hdfs://`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from afo import storage
from afo.storage.url import ByteRange


class LocalFile(NamedTuple):
    """A path to read from; `is_copy` if it was made for that."""

    path: Path
    is_copy: bool

    @classmethod
    def of(cls, url: str) -> "LocalFile":
        """A file that is local already."""
        return cls(Path(url.removeprefix("file://")), is_copy=False)

    @classmethod
    def download(cls, url: str, path: Path, part: ByteRange | None = None) -> "LocalFile":
        """A copy at `path`; of a part, which lies in it where it lies in the file. Raises as `afo.storage.download`."""
        storage.download(url, str(path), part)
        return cls(path, is_copy=True)

    def discard(self) -> None:
        """Delete it if it is a copy."""
        if self.is_copy:
            self.path.unlink(missing_ok=True)


def is_local(url: str) -> bool:
    """Whether `url` is a path or `file://`."""
    return url.startswith("file://") or "://" not in url


@contextmanager
def local_file(url: str, scratch: Path) -> Iterator[Path]:
    """The path of a file; one that is not local is copied to `scratch` and deleted afterwards."""
    file = LocalFile.of(url) if is_local(url) else LocalFile.download(url, scratch)
    try:
        yield file.path
    finally:
        file.discard()

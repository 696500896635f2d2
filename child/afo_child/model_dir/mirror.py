"""A directory and its copy at a URL, file by file under the same names.

What is at the URL can be read at any time: files are copied in the order in which they were written, each whole, and
deleted last. TensorFlow writes a checkpoint's files first and the file `checkpoint`, which names them, after; so what
the copy of that file names is complete.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from afo import storage
from afo.errors import NotFound
from afo.storage import FileInfo

#: A file on its way; it is renamed once it is known to be what was looked at.
_ARRIVING = ".afo-arriving"
#: Size, and time of the last change in ns.
_Stamp = tuple[int, int]


class Mirror:
    """Remembers what is the same on both sides, so that only changes are copied. Belongs to one thread at a time.

    Its methods raise what `afo.storage` raises, and `OSError` for the local disk.
    """

    def __init__(self, directory: Path, url: str) -> None:
        self._directory, self._url = directory, url
        #: Name → the local file and that at the URL, as they were when they were the same.
        self._same: dict[str, tuple[_Stamp, tuple[int, float]]] = {}

    def save(self) -> bool:
        """Bring changes to the URL; False if files changed meanwhile and some had to be left for the next time."""
        found = self._local()
        changed = [name for name, stamp in found.items() if name not in self._same or self._same[name][0] != stamp]
        complete = True
        for name in sorted(changed, key=lambda name: found[name][1]):
            complete = self._send(name, found[name]) and complete
        # A file that is gone may be named by one that has changed since: that one has to arrive first.
        if not complete or self._local() != found:
            return False
        for name in set(self._same) - set(found):
            storage.delete(self._remote(name))
            del self._same[name]
        return True

    def restore(self) -> None:
        """Make the directory what is at the URL; empty if nothing is."""
        self._directory.mkdir(parents=True, exist_ok=True)
        remote = self._list_remote()
        local = self._local()
        for name, info in sorted(remote.items(), key=lambda item: item[1].modified):
            stamp = (info.size, info.modified)
            if name not in local or self._same.get(name) != (local[name], stamp):
                path = self._directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                storage.download(info.url, str(path))
                self._same[name] = (_stamp(path), stamp)
        for name in set(local) - set(remote):
            (self._directory / name).unlink(missing_ok=True)
        self._same = {name: pair for name, pair in self._same.items() if name in remote}

    def _send(self, name: str, stamp: _Stamp) -> bool:
        path, arriving = self._directory / name, storage.join(self._url, _ARRIVING)
        with contextlib.suppress(FileNotFoundError, NotFound):  # it may be deleted at any time
            if _stamp(path) == stamp:
                storage.upload(str(path), arriving)
            if _stamp(path) == stamp:
                target = self._remote(name)
                storage.make_dirs(storage.parent(target))
                storage.rename(arriving, target)
                info = storage.info(target)
                self._same[name] = (stamp, (info.size, info.modified))
                return True
        storage.delete(arriving)
        return False

    def _remote(self, name: str) -> str:
        return storage.join(self._url, *name.split("/"))

    def _local(self) -> dict[str, _Stamp]:
        found = {}
        for path in self._directory.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path.relative_to(self._directory).as_posix()] = _stamp(path)
        return found

    def _list_remote(self) -> dict[str, FileInfo]:
        if not storage.exists(self._url):
            return {}
        return {name: info for name, info in _walk(self._url) if name != _ARRIVING}


def _walk(url: str, below: str = "") -> Iterator[tuple[str, FileInfo]]:
    for info in storage.list_dir(url):
        name = below + storage.name(info.url)
        if info.is_dir:
            yield from _walk(info.url, f"{name}/")
        else:
            yield name, info


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns

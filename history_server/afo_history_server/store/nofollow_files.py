"""Local files below a root, reached through no link.

Each directory on the way is opened by its name in the one before, so what somebody exchanges for a link meanwhile leads
nowhere either.
"""

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from afo.errors import NotFound, PermissionDenied, StorageError
from afo.storage import FileInfo
from afo.storage.backend import temporary_name
from afo.storage.local import describe_file, local_input, translate_errors
from afo.storage.url import parse

#: Enough to go through a directory, which may be one that cannot be listed.
_THROUGH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Levels of directories that are deleted; each takes a descriptor.
MAX_DEPTH = 100
#: Not to wait for a pipe that has taken the file's place.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class IsLink(PermissionDenied):
    """A name on the way is a link, which is not followed."""


class UnlinkedFiles:
    """Those below `root`, which may be a link. Methods take URLs, and raise `IsLink` and what `afo.storage` raises."""

    def __init__(self, root: str) -> None:
        self._root = parse(root).path

    def list_dir(self, url: str) -> list[FileInfo]:
        """What lies directly in a directory, links left out, sorted by URL."""
        with self._open_parent(url, "list") as (folder, name):
            descriptor = os.open(name, _LIST, dir_fd=folder)
            try:
                with os.scandir(descriptor) as entries:
                    return sorted(_describe_entries(url, entries), key=lambda info: info.url)
            finally:
                os.close(descriptor)

    def info(self, url: str) -> FileInfo:
        """Size, time and kind."""
        with self._open_parent(url, "look at") as (folder, name):
            return describe_file(url, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def open(self, url: str) -> BinaryIO:
        """A plain file for reading."""
        with self._open_parent(url, "read") as (folder, name):
            # Before it is opened as well, which of a device may do something.
            _check_plain(url, os.stat(name, dir_fd=folder, follow_symlinks=False))
            file = local_input(url, lambda _path, _flags: os.open(name, _READ, dir_fd=folder))
        try:
            _check_plain(url, os.fstat(file.fileno()))
        except NotFound:
            file.close()
            raise
        return file

    def delete(self, url: str) -> None:
        """Deletes a file, a link, or a directory with all that it holds, if there is one.

        Raises `StorageError` for more than MAX_DEPTH levels.
        """
        with self._open_parent(url, "delete", last=True) as (folder, name):
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return
            if stat.S_ISDIR(status.st_mode):
                _remove(url, folder, name)
            else:
                os.unlink(name, dir_fd=folder)

    def write(self, url: str, data: bytes, *, overwrite: bool) -> None:
        """A file that is there as a whole or not at all. Raises `AlreadyExists` where it must not `overwrite` one."""
        with self._open_parent(url, "write", last=True) as (folder, name):
            temporary = temporary_name(name)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                if overwrite:  # of a link the link itself
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)

    @contextmanager
    def _open_parent(self, url: str, what: str, *, last: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the directory that holds it, its name there). `last`: the name itself may be a link's."""
        names = self._names(url)
        with translate_errors(what, url):
            folder = os.open(self._root, _THROUGH)
            try:
                for name in names[:-1]:
                    _refuse_link(url, folder, name)
                    outer, folder = folder, os.open(name, _THROUGH | os.O_NOFOLLOW, dir_fd=folder)
                    os.close(outer)
                if not last:
                    _refuse_link(url, folder, names[-1])
                yield folder, names[-1]
            except NotADirectoryError as error:
                raise NotFound(f"cannot {what} {url}: no such file or directory") from error
            finally:
                os.close(folder)

    def _names(self, url: str) -> list[str]:
        """What leads from the root to a place; the root itself is `.`."""
        path = parse(url).path
        if posixpath.commonpath((self._root, path)) != self._root:
            raise PermissionDenied(f"{url} does not lie below {self._root}")
        return posixpath.relpath(path, self._root).split("/")


def _describe_entries(url: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[FileInfo]:
    for entry in entries:
        with suppress(FileNotFoundError):  # gone meanwhile
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISLNK(status.st_mode):
                yield describe_file(posixpath.join(parse(url).url, entry.name), status)


def _remove(url: str, folder: int, name: str, depth: int = 1) -> None:
    """A directory with all that it holds."""
    if depth > MAX_DEPTH:
        raise StorageError(f"cannot delete {url}: more than {MAX_DEPTH} levels of directories; delete it by hand")
    descriptor = os.open(name, _LIST, dir_fd=folder)
    try:
        with os.scandir(descriptor) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                _remove(url, descriptor, entry.name, depth + 1)
            else:
                os.unlink(entry.name, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=folder)


def _refuse_link(url: str, folder: int, name: str) -> None:
    """So that an error says it; to open it without following fails as well."""
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise IsLink(f"{name} in {url} is a link; it is not followed")


def _check_plain(url: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotFound(f"cannot read {url}: no such file")

"""Files of this machine."""

from __future__ import annotations

import errno
import io
import os
import posixpath
import pwd
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import BinaryIO

from afo.errors import (
    AfoError,
    AlreadyExists,
    NoSpaceLeft,
    NotFound,
    OutOfDescriptors,
    PermissionDenied,
    StorageError,
    has_no_space,
)
from afo.storage.backend import BLOCK, FileInfo, temporary_name
from afo.storage.regular_file import open_descriptor, special_kind

_LOOK = "look at"


@contextmanager
def translate_errors(what: str, path: str) -> Iterator[None]:
    """The one place where errors of the operating system become afo's."""
    try:
        yield
    except AfoError:
        raise
    except OSError as error:
        raise _translate(error, what, path) from error


def _translate(error: OSError, what: str, path: str) -> AfoError:
    if isinstance(error, FileNotFoundError) or (error.errno == errno.ENOTDIR and what == _LOOK):
        return NotFound(f"cannot {what} {path}: no such file or directory")
    if isinstance(error, FileExistsError):
        return AlreadyExists(f"cannot {what} {path}: it exists already")
    if isinstance(error, PermissionError):
        return PermissionDenied(f"cannot {what} {path}: permission denied (running as user id {os.geteuid()})")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OutOfDescriptors(f"cannot {what} {path}: {error.strerror}; `ulimit -n` says how many there may be")
    kind = NoSpaceLeft if has_no_space(error) else StorageError
    return kind(f"cannot {what} {path}: {error.strerror or error}")


def describe_file(url: str, status: os.stat_result) -> FileInfo:
    """What is known of a file of this machine."""
    is_dir = stat.S_ISDIR(status.st_mode)
    size, owner = 0 if is_dir else status.st_size, _user(status.st_uid)
    return FileInfo(url, size, status.st_mtime_ns / 1e9, is_dir, owner, special_kind(status.st_mode))


def local_input(path: str, opener: Callable[[str, int], int]) -> BinaryIO:
    """A file for reading. Raises afo's errors, with `path` in them, but from the opening what `opener` raises."""
    return io.BufferedReader(_LocalSource(path, opener), BLOCK // 4)


class LocalFiles:
    """The `afo.storage.backend.Backend` of plain paths and `file://` URLs."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def open_input(self, path: str, patience_s: float | None) -> BinaryIO:
        """Waits for nobody: what was written can be read, and what is no regular file is refused."""
        with translate_errors("read", path):
            return local_input(path, open_descriptor)

    def create(self, path: str, *, overwrite: bool, mode: int | None) -> _LocalSink:
        if os.path.isdir(path):
            raise StorageError(f"cannot write {path}: it is a directory")
        self.make_dirs(posixpath.dirname(path), None)
        with translate_errors("write", path):
            return _LocalSink(path, overwrite=overwrite, mode=mode)

    def append(self, path: str, data: bytes) -> None:
        self.make_dirs(posixpath.dirname(path), None)
        with translate_errors("append to", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            with os.fdopen(descriptor, "ab") as file:
                if not os.fstat(descriptor).st_size:
                    # Before the data: what may fail for want of a descriptor comes while nothing is written.
                    _sync_directory(path)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    def take_over(self, path: str) -> None:
        """Nothing to do: a local file has no lease."""
        self.info(path)

    def info(self, path: str) -> FileInfo:
        with translate_errors(_LOOK, path):
            return describe_file(self._prefix + path, os.stat(path))

    def list_dir(self, path: str) -> list[FileInfo]:
        found: list[FileInfo] = []
        with translate_errors("list", path), os.scandir(path) as entries:
            for entry in entries:
                # Gone between listing and stat, or a dangling link: not there.
                with suppress(FileNotFoundError):
                    found.append(describe_file(self._prefix + entry.path, entry.stat()))
        return found

    def make_dirs(self, path: str, mode: int | None) -> None:
        with translate_errors("make directory", path):
            if os.path.isdir(path):
                return
            os.makedirs(path, mode=0o777 if mode is None else mode, exist_ok=True)

    def delete(self, path: str, *, recursive: bool) -> bool:
        with translate_errors("delete", path):
            if not os.path.lexists(path):
                return False
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
            elif recursive:
                shutil.rmtree(path)
            else:
                os.rmdir(path)
            return True

    def rename(self, source: str, destination: str) -> None:
        with translate_errors("rename", f"{source} to {destination}"):
            os.replace(source, destination)


class _LocalSource(io.FileIO):
    """An open file whose disk may fail, or refuse a position, long after the opening."""

    def __init__(self, path: str, opener: Callable[[str, int], int]) -> None:
        super().__init__(path, "r", opener=opener)
        self._path = path

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]  # typeshed's Buffer is wider
        with translate_errors("read", self._path):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with translate_errors("read", self._path):
            return super().readall()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        with translate_errors("read", self._path):
            return super().seek(offset, whence)


class _LocalSink:
    """A temporary file beside its destination."""

    def __init__(self, path: str, *, overwrite: bool, mode: int | None) -> None:
        self._path = path
        self._overwrite = overwrite
        self._temporary = temporary_name(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._temporary, flags, 0o666 if mode is None else mode), "wb", buffering=0)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with translate_errors("write", self._path):
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]

    def commit(self) -> None:
        with translate_errors("write", self._path):
            os.fsync(self._file.fileno())
            self._file.close()
            if self._overwrite:
                os.replace(self._temporary, self._path)
            else:
                # A hard link is the one rename that refuses an existing name atomically.
                os.link(self._temporary, self._path)
                os.unlink(self._temporary)
            _sync_directory(self._path)

    def discard(self) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary)


def _sync_directory(path: str) -> None:
    """Makes a new name of `path` survive a crash of the machine."""
    descriptor = os.open(posixpath.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@lru_cache(1000)
def _user(number: int) -> str:
    """The user's name, or the number of one that this machine does not know."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)

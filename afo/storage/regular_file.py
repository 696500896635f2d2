"""Local files by names that anybody may have made: what is no regular file is refused, not waited for.

A named pipe has its reader wait until somebody writes, a device may never end, and opening one may do something.
"""

import errno
import os
import stat
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def special_kind(mode: int) -> str:
    """`a named pipe`, `a socket`, …; '' for a regular file and a directory. `mode` is `st_mode`."""
    return _KINDS.get(stat.S_IFMT(mode), "")


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file for reading. Raises `OSError`, whose `strerror` says what a file of another kind is."""
    return open(path, "rb", opener=open_descriptor)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The whole of a regular file. Raises as `open_regular`, and for one of more than `most` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and no file of its kind has more than {most:,}", str(path))
    return data


def read_end(path: str | os.PathLike[str], most: int) -> bytes:
    """The last bytes of a regular file, `most` at most. Raises as `open_regular`."""
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        return file.read(most)


def open_descriptor(path: str, flags: int) -> int:
    """The `opener` of regular files for `open` and `io.FileIO`. Raises as `open_regular`."""
    _check(path, os.stat(path))
    # It may have been exchanged since; not to block at opening is all that the flag means for a regular file.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _check(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if kind := special_kind(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", path)

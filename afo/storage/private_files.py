"""Directories of mode 0700 and files of mode 0600, from the moment that they are there, whatever the umask."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

#: Permission bits of anybody but the owner.
_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make a directory and those above it that are missing, each of mode 0700; one that is there stays as it is.

    Raises `OSError`.
    """
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    for path in reversed(missing):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise  # else another command was quicker


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 that appears whole under its name. Raises `OSError`."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def open_to_others(paths: Iterable[Path]) -> dict[Path, int]:
    """Permission bits of those of the paths which others than the owner may read, write or enter."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):  # what is not there, or not ours to look at, is not open by our doing
            found[path] = path.stat().st_mode & 0o7777
    return {path: mode for path, mode in found.items() if mode & _OTHERS}

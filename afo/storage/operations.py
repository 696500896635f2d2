"""The operations of `afo.storage`: each takes URLs, finds their file system, and calls it."""

from __future__ import annotations

import os
from typing import BinaryIO, cast

from afo.errors import AlreadyExists, NotFound, StorageError
from afo.storage.backend import BLOCK, AtomicOutput, Backend, FileInfo
from afo.storage.local import LocalFiles
from afo.storage.patience import patiently
from afo.storage.pattern import component_matcher, escape, expand_braces, has_wildcard, unescape
from afo.storage.streams import copy_here
from afo.storage.url import LOCAL, Location, parse


def _backend(location: Location) -> Backend:
    if location.scheme != LOCAL:
        # Only here, so that work on local files never loads the client.
        from afo.storage.hdfs import HdfsFiles

        return HdfsFiles(location.prefix, location.address)
    return LocalFiles(location.prefix)


def open_input(url: str, patience_s: float | None = None) -> BinaryIO:
    """A seekable, buffered file for reading.

    `patience_s`: in HDFS, seconds to wait for a process that has the file open for writing, by default 30. Raises
    `StillOpen` after them.
    """
    location = parse(url)
    return _backend(location).open_input(location.path, patience_s)


def open_output(url: str, *, overwrite: bool = True, mode: int | None = None) -> BinaryIO:
    """A file for writing that appears under its name, whole and durable, when it is closed.

    An exception inside its `with` block leaves no trace. Missing directories are made. With `overwrite=False` closing
    raises AlreadyExists if the name is taken by then, and of simultaneous creators exactly one succeeds. `mode` are
    the permission bits of the file.
    """
    location = parse(url)
    sink = _backend(location).create(location.path, overwrite=overwrite, mode=mode)
    return cast(BinaryIO, AtomicOutput(sink))


def append(url: str, data: bytes) -> None:
    """Adds `data` to the end of a file, creating it if need be. What was added is on disk when this returns.

    After ClusterUnreachable it is open whether the data were, or will yet be, added: do not simply try again.
    """
    location = parse(url)
    _backend(location).append(location.path, data)


def take_over(url: str) -> None:
    """Ends the writing rights of whoever has the file open, so that it can be read in full.

    For a new attempt that reads the journal of the one before: what the old writer adds afterwards fails.
    """
    location = parse(url)
    _backend(location).take_over(location.path)


def read_bytes(url: str) -> bytes:
    """The whole file."""
    with open_input(url) as file:
        return file.read()


def write_bytes(url: str, data: bytes, *, overwrite: bool = True, mode: int | None = None) -> None:
    """Writes a whole file; see `open_output`. With `overwrite=False` it is a fence: create once, or AlreadyExists."""
    if overwrite:
        patiently(lambda: _write(url, data, overwrite=True, mode=mode))
    elif exists(url):
        raise AlreadyExists(f"cannot write {url}: it exists already")
    else:  # once: whether a try without an answer made the file is open
        _write(url, data, overwrite=False, mode=mode)


def _write(url: str, data: bytes, *, overwrite: bool, mode: int | None) -> None:
    with open_output(url, overwrite=overwrite, mode=mode) as file:
        file.write(data)


def exists(url: str) -> bool:
    """Whether there is a file or directory of this name."""
    try:
        info(url)
    except NotFound:
        return False
    return True


def info(url: str) -> FileInfo:
    """Size, time and kind. Raises NotFound."""
    location = parse(url)
    return _backend(location).info(location.path)


def list_dir(url: str) -> list[FileInfo]:
    """What lies directly in a directory, hidden and temporary files included, sorted by URL."""
    location = parse(url)
    return sorted(_backend(location).list_dir(location.path), key=lambda entry: entry.url)


def glob(pattern: str) -> list[FileInfo]:
    """The files (no directories) that match, sorted by URL; none is an empty list. Syntax: `afo.storage.pattern`."""
    found: dict[str, FileInfo] = {}
    if "://" not in pattern and not pattern.startswith("/"):
        pattern = f"{escape(os.getcwd())}/{pattern}"
    for plain in expand_braces(pattern):
        location = parse(plain)
        root = Location(location.scheme, location.prefix, "/")
        components = [component for component in location.path.split("/") if component]
        found.update({file.url: file for file in _walk(_backend(location), root, components)})
    return [found[url] for url in sorted(found)]


def _walk(backend: Backend, start: Location, components: list[str]) -> list[FileInfo]:
    """The files under `start` that match the remaining components. Literal ones cost no listing."""
    literal = 0
    while literal < len(components) and not has_wildcard(components[literal]):
        start = start.child(unescape(components[literal]))
        literal += 1
    rest = components[literal:]
    try:
        if not rest:
            found = backend.info(start.path)
            return [] if found.is_dir else [found]
        entries = backend.list_dir(start.path)
    except NotFound:
        return []
    matcher = component_matcher(rest[0])
    matching = [entry for entry in entries if matcher.fullmatch(parse(entry.url).name)]
    if len(rest) == 1:
        return [entry for entry in matching if not entry.is_dir]
    return [file for entry in matching if entry.is_dir for file in _walk(backend, parse(entry.url), rest[1:])]


def make_dirs(url: str, mode: int | None = None) -> None:
    """Makes a directory and its missing parents. An existing one is left as it is. `mode` are permission bits."""
    location = parse(url)
    _backend(location).make_dirs(location.path, mode)


def delete(url: str, recursive: bool = False, missing_ok: bool = True) -> None:
    """Deletes a file, an empty directory, or with `recursive` a directory with all that it holds.

    Raises StorageError for a directory that is not empty and for the root, NotFound if `missing_ok` is false.
    """
    location = parse(url)
    if location.path == "/":
        raise StorageError(f"cannot delete {url}: it is the root directory")
    if not _backend(location).delete(location.path, recursive=recursive) and not missing_ok:
        raise NotFound(f"cannot delete {url}: no such file or directory")


def rename(source: str, destination: str) -> None:
    """Moves a file or directory inside one file system, atomically, over an existing file or empty directory."""
    old, new = parse(source), parse(destination)
    if (old.scheme, old.address) != (new.scheme, new.address):
        raise StorageError(f"cannot rename {source} to {destination}: they lie in different file systems")
    _backend(old).rename(old.path, new.path)


def download(url: str, local_path: str, part: tuple[int, int] | None = None) -> None:
    """Copies a file to a local path, atomically, by several streams. A crash of the machine may leave less of it.

    Of a `part` (begin, end) these bytes alone are read. They lie in the copy where they lie in the file, behind a hole.
    """
    patiently(lambda: copy_here(lambda: open_input(url), local_path, part))


def upload(local_path: str, url: str) -> None:
    """Copies a local file to a URL, atomically, in blocks."""
    patiently(lambda: _send(local_path, url))


def _send(local_path: str, url: str) -> None:
    with open_input(local_path) as reader, open_output(url) as writer:
        while block := reader.read(2 * BLOCK):
            writer.write(block)

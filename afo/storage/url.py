"""URLs of files, and of parts of them: one string, taken apart in one place.

A URL is a plain path, `file:///path`, `hdfs://host:port/path`, `hdfs:///path` (the cluster of `$HADOOP_CONF_DIR`), or
`viewfs://table/path`, which a mount table in core-site.xml leads to an HDFS.
It is taken literally, as Hadoop's own shell does: no percent-decoding, and `?` and `#` are ordinary characters.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import NamedTuple

from afo.errors import StorageError, Unsupported

LOCAL = "file"
HDFS = "hdfs"
VIEWFS = "viewfs"
SCHEMES = (LOCAL, HDFS, VIEWFS)


@dataclass(frozen=True)
class Location:
    """A parsed URL. `prefix + path` is the URL again, in the spelling in which it came."""

    scheme: str  #: one of SCHEMES
    prefix: str  #: "" for a plain path, "file://", "hdfs://host:port" or "viewfs://table"
    path: str  #: absolute and normalised, without a trailing slash (except the root itself)

    @property
    def url(self) -> str:
        return self.prefix + self.path

    @property
    def address(self) -> str:
        """host:port, name service or mount table; empty where the configuration decides, and of a local path."""
        return "" if self.scheme == LOCAL else self.prefix.removeprefix(f"{self.scheme}://")

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def parent(self) -> Location:
        return Location(self.scheme, self.prefix, posixpath.dirname(self.path))

    def child(self, name: str) -> Location:
        return Location(self.scheme, self.prefix, posixpath.join(self.path, name))


def parse(url: str) -> Location:
    """Takes a URL apart. A relative plain path is relative to the working directory.

    Raises StorageError for a text that names no file, Unsupported for another scheme.
    """
    if not url or "\0" in url:
        raise StorageError(f"{url!r} is not a path or URL; write a path, file:///path or hdfs://host:port/path")
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Location(LOCAL, "", _normal(os.path.abspath(url)))
    if scheme not in SCHEMES:
        raise Unsupported(
            f"{url}: file system {scheme!r} is not supported; allowed are {', '.join(SCHEMES)}, plain paths"
        )
    authority, slash, path = rest.partition("/")
    if scheme == LOCAL and authority not in ("", "localhost"):
        raise StorageError(f"{url}: a file URL has three slashes (file:///{authority}/{path}) or is a plain path")
    if not slash:
        raise StorageError(f"{url}: names no path; write {url}/ for the root directory")
    prefix = "file://" if scheme == LOCAL else f"{scheme}://{authority}"
    return Location(scheme, prefix, _normal("/" + path))


def join(url: str, *parts: str) -> str:
    """`url` with path components appended.

    Raises StorageError for a part that is absolute or climbs out with `..`.
    """
    for part in parts:
        if part.startswith("/") or ".." in part.split("/"):
            raise StorageError(f"{part!r} cannot be joined to {url}: it must be a relative path without '..'")
    return posixpath.join(url, *parts)


def relative(url: str, directory: str) -> str:
    """What leads from `directory` to `url`, so that both can be moved together; `url` itself on another file system."""
    target, start = parse(url), parse(directory)
    if (target.scheme, target.prefix) != (start.scheme, start.prefix):
        return target.url
    return posixpath.relpath(target.path, start.path)


def resolve(directory: str, reference: str) -> str:
    """The URL that `relative` made `reference` of."""
    if "://" in reference or reference.startswith("/"):
        return parse(reference).url
    return parse(posixpath.join(directory, reference)).url


def is_below(url: str, directory: str) -> bool:
    """Whether `url` is in `directory` or deeper, by its name alone."""
    inner, outer = parse(url), parse(directory)
    return inner.prefix == outer.prefix and inner.path.startswith(outer.path.rstrip("/") + "/")


def parent(url: str) -> str:
    """The URL of the directory that holds `url`."""
    return parse(url).parent.url


def name(url: str) -> str:
    """The last component of the path."""
    return parse(url).name


class ByteRange(NamedTuple):
    """The bytes from offset `begin` on, those before offset `end`."""

    begin: int
    end: int


def part_name(url: str, part: ByteRange | None) -> str:
    """What a file, or a part of it, is called: `URL`, or as Hadoop calls its splits `URL:begin+length`."""
    return url if part is None else f"{url}:{part.begin}+{part.end - part.begin}"


def _normal(path: str) -> str:
    # normpath keeps a leading double slash, which POSIX allows to mean something else.
    return "/" + posixpath.normpath(path).lstrip("/")

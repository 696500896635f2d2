"""Reading below the directory of all jobs, and nowhere else.

Users own the directories of their jobs. On local disks a link in one could lead anywhere that the server may read, so
every path is resolved first; between that and the opening a link could still be exchanged, which matters only where
jobs of several users are served, and there the server must run as a user who may read no more than they do.
"""

import os
from typing import BinaryIO

from afo import storage
from afo.errors import NotFound, PermissionDenied
from afo.growing_log import PATIENCE_S
from afo.storage import FileInfo
from afo.storage.url import LOCAL, parse


class JobFiles:
    """Files below `root`. Every method raises what `afo.storage` raises.

    `check_owners`: a job is believed to be a user's only where the file that says so belongs to that user.
    """

    def __init__(self, root: str, check_owners: bool = False) -> None:
        self.root = root.rstrip("/") or "/"
        self.check_owners = check_owners

    def list_dir(self, url: str) -> list[FileInfo]:
        """What lies directly in a directory, sorted by URL."""
        self._resolve(url)
        return storage.list_dir(url)

    def has_dir(self, url: str) -> bool:
        """Whether there is such a directory."""
        self._resolve(url)
        try:
            return storage.info(url).is_dir
        except NotFound:
            return False

    def is_link(self, url: str) -> bool:
        """Whether it leads elsewhere, which in HDFS nothing does."""
        location = parse(url)
        return location.scheme == LOCAL and os.path.islink(location.path)

    def info(self, url: str) -> FileInfo:
        """Size and time of a plain file."""
        self._check_file(url)
        found = storage.info(url)
        if found.is_dir:
            raise NotFound(f"{url} is a directory")
        return found

    def open(self, url: str) -> BinaryIO:
        """A plain file for reading."""
        self._check_file(url)
        return storage.open_input(url, PATIENCE_S)  # somebody waits for a page

    def read(self, url: str, limit: int) -> bytes:
        """The first `limit` bytes of a plain file."""
        with self.open(url) as file:
            return file.read(limit)

    def check_owner(self, url: str, user: str) -> None:
        """Raises `PermissionDenied` for a file that is not this user's, where owners are checked."""
        if self.check_owners and (owner := storage.info(url).owner) != user:
            raise PermissionDenied(f"{url} says that {user or 'nobody'} submitted the job, but belongs to {owner}")

    def _check_file(self, url: str) -> None:
        path = self._resolve(url)
        # Opening a pipe or a device could block for ever.
        if path and not os.path.isfile(path):
            raise NotFound(f"cannot read {url}: no such file")

    def _resolve(self, url: str) -> str:
        """The real path of a local URL, '' in HDFS, where the NameNode follows no links."""
        location = parse(url)
        if location.scheme != LOCAL:
            return ""
        root, path = os.path.realpath(parse(self.root).path), os.path.realpath(location.path)
        if os.path.commonpath((root, path)) != root:
            raise PermissionDenied(f"{url} is a link that leads out of {self.root}; it is not followed")
        return path

"""Files below the directory of all jobs, and nowhere else.

Users own the directories of their jobs. On local disks a link in one could lead anywhere that the server may read, to
another user's job as well, so none is followed: a link has no job, no directory and no file behind it.
"""

import os
from typing import BinaryIO

from afo import storage
from afo.errors import NotFound, PermissionDenied
from afo.events.event_tail import PATIENCE_S
from afo.storage import FileInfo
from afo.storage.url import LOCAL, parse
from afo_history_server.store.nofollow_files import IsLink, UnlinkedFiles


class JobFiles:
    """Files below `root`. Every method raises what `afo.storage` raises, and `IsLink`, which is a `PermissionDenied`.

    `check_owners`: a job is believed to be a user's only where the file that says so belongs to that user.
    """

    def __init__(self, root: str, check_owners: bool = False) -> None:
        self.root = root.rstrip("/") or "/"
        self.check_owners = check_owners
        #: None in HDFS, where the NameNode follows no links.
        self._here = UnlinkedFiles(self.root) if parse(self.root).scheme == LOCAL else None

    def list_dir(self, url: str) -> list[FileInfo]:
        """What lies directly in a directory, links left out, sorted by URL."""
        return self._here.list_dir(url) if self._here else storage.list_dir(url)

    def has_dir(self, url: str) -> bool:
        """Whether there is such a directory, which a link to one is not."""
        try:
            return self._info(url).is_dir
        except (NotFound, IsLink):
            return False

    def is_link(self, url: str) -> bool:
        """Whether it, or a name on the way to it, leads elsewhere."""
        try:
            self._info(url)
        except IsLink:
            return True
        except NotFound:
            pass
        return False

    def info(self, url: str) -> FileInfo:
        """Size and time of a plain file."""
        found = self._info(url)
        if found.is_dir or found.special:
            raise NotFound(f"{url} is {found.special or 'a directory'}")
        return found

    def open(self, url: str) -> BinaryIO:
        """A plain file for reading."""
        # Where it is not here: somebody waits for a page.
        return self._here.open(url) if self._here else storage.open_input(url, PATIENCE_S)

    def read(self, url: str, limit: int) -> bytes:
        """The first `limit` bytes of a plain file."""
        with self.open(url) as file:
            return file.read(limit)

    def read_end(self, url: str, limit: int) -> bytes:
        """The last `limit` bytes of a plain file."""
        with self.open(url) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit)

    def create(self, url: str, data: bytes) -> None:
        """A file that is there as a whole or not at all. Raises `AlreadyExists`."""
        if self._here:
            self._here.write(url, data, overwrite=False)
        else:
            storage.write_bytes(url, data, overwrite=False)

    def replace(self, url: str, data: bytes) -> None:
        """The same in place of a file of this name, if there is one; who reads gets the one or the other."""
        if self._here:
            self._here.write(url, data, overwrite=True)
        else:
            storage.write_bytes(url, data)

    def delete(self, url: str) -> None:
        """Deletes a file or a directory with all that it holds, if there is one; of a link the link alone."""
        if self._here:
            self._here.delete(url)
        else:
            storage.delete(url, recursive=True)

    def check_owner(self, url: str, user: str) -> None:
        """Raises `PermissionDenied` for a file that is not this user's, where owners are checked."""
        if self.check_owners and (owner := self._info(url).owner) != user:
            raise PermissionDenied(f"{url} says that {user or 'nobody'} submitted the job, but belongs to {owner}")

    def _info(self, url: str) -> FileInfo:
        return self._here.info(url) if self._here else storage.info(url)

"""A copy of a job's event files for TensorBoard, whose plugins read whatever else they find beside them."""

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from afo import storage
from afo.errors import ClusterUnreachable, NoSpaceLeft, NotFound, PermissionDenied, StillOpen, StorageError
from afo.events.event_tail import PATIENCE_S
from afo.storage.local import local_input, translate_errors
from afo.storage.url import LOCAL, parse

#: Of one job: bytes that are copied, event files, and levels of directories below its summaries.
MAX_BYTES = 1 << 30
MAX_FILES = 2000
MAX_DEPTH = 5
#: How TensorBoard itself knows an event file.
_MARK = "tfevents"
_BLOCK = 1 << 20
_LOG = logging.getLogger(__name__)


class _EventFile(Struct, frozen=True):
    """One in a job's summaries. `open` is to be called before the next one is looked for."""

    place: str
    size: int
    open: Callable[[], BinaryIO]


class SummaryFolder:
    """The event files below `url`, which `refresh` copies to `path` as they grow: no other file, and through no link.

    A projector's configuration, a checkpoint or a link in a job's summaries would have TensorBoard read files that are
    none of the job's, with the rights of whoever runs it. `room`: bytes that may be added to what was `copied`;
    `given_up`: nobody wants the copy any more.
    """

    def __init__(
        self, url: str, path: Path, room: Callable[[], int] = lambda: MAX_BYTES,
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self.path = path
        self._url, self._room, self._given_up = url, room, given_up
        #: Of each file, by its path below the summaries, the bytes that are in the copy.
        self._copied: dict[str, int] = {}
        self._said: set[str] = set()

    @property
    def copied(self) -> int:
        """Bytes of all copies."""
        return sum(self._copied.values())

    def refresh(self) -> None:
        """Copy what has grown; a file that cannot be read hides no other, and a job without summaries has none yet.

        Raises NoSpaceLeft, ClusterUnreachable, and what `afo.storage` raises of a directory that cannot be listed.
        """
        local = parse(self._url).scheme == LOCAL
        with contextlib.suppress(NotFound):
            for file in self._list_local() if local else self._list_remote(self._url, 0):
                if self._given_up():
                    return
                try:
                    self._take(file)
                except (NotFound, StillOpen):
                    pass  # there is a next look
                except (NoSpaceLeft, ClusterUnreachable):
                    raise  # the next file would fare alike
                except (PermissionDenied, StorageError) as error:
                    self._say(f"{error}; it is not shown")

    def _list_local(self) -> Iterator[_EventFile]:
        """On this machine, where anything may be exchanged for a link while it is looked at."""
        path = Path(parse(self._url).path)
        with translate_errors("list, not following links,", str(path)), _directory(path.parent) as job:
            for place, folders, names, folder in os.fwalk(path.name, onerror=self._unread, dir_fd=job):
                below = Path(place).relative_to(path.name)
                if len(below.parts) >= MAX_DEPTH:
                    folders.clear()
                for name in filter(_is_event_file, sorted(names)):
                    with contextlib.suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield _EventFile(str(below / name), status.st_size, _opener(name, folder))

    def _list_remote(self, url: str, depth: int) -> Iterator[_EventFile]:
        for info in storage.list_dir(url):
            if info.is_dir and depth < MAX_DEPTH:
                yield from self._list_remote(info.url, depth + 1)
            elif not info.is_dir and _is_event_file(storage.name(info.url)):
                place = storage.relative(info.url, self._url)
                yield _EventFile(place, info.size, partial(storage.open_input, info.url, PATIENCE_S))

    def _take(self, file: _EventFile) -> None:
        """Copy what is not in the copy yet, as far as there is room for it."""
        if file.place not in self._copied and len(self._copied) >= MAX_FILES:
            self._say(f"{self._url} has more than {MAX_FILES} event files; the others are not shown")
            return
        begun = self._copied.setdefault(file.place, 0)
        if file.size < begun:  # another one of the same name
            begun = 0
        room = min(MAX_BYTES - self.copied, self._room()) + self._copied[file.place]
        if file.size > room:
            self._say(
                f"event files in {self._url} are larger than what may be copied, {MAX_BYTES >> 20} MiB of a job at "
                "most; what is beyond is not shown"
            )
        if begun < (end := min(file.size, room)) or not end:
            self._copied[file.place] = self._copy(file, begun, end)

    def _copy(self, file: _EventFile, begun: int, end: int) -> int:
        """Write into the copy in place: TensorBoard has it open and would not see a file renamed over it."""
        target = self.path / file.place
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            file.open() as source,
            translate_errors("write", str(target)),
            target.open("r+b" if begun else "wb") as copy,
        ):
            source.seek(begun)
            copy.seek(begun)
            while not self._given_up() and copy.tell() < end and (data := source.read(min(_BLOCK, end - copy.tell()))):
                copy.write(data)
            return copy.tell()

    def _unread(self, error: OSError) -> None:
        self._say(f"{error.filename} in {self._url} cannot be read, and is not shown: {error.strerror}")

    def _say(self, words: str) -> None:
        """Once."""
        if words not in self._said and len(self._said) < MAX_FILES:
            self._said.add(words)
            _LOG.warning("%s", words)


def _is_event_file(name: str) -> bool:
    """A file that is being written has a name with a dot in front."""
    return _MARK in name and not name.startswith(".")


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opener(name: str, folder: int) -> Callable[[], BinaryIO]:
    # Not to wait for a pipe that has taken the file's place.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

    def open_file() -> BinaryIO:
        with translate_errors("read", name):
            try:
                file = local_input(name, lambda _path, _flags: os.open(name, flags, dir_fd=folder))
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise NotFound(f"cannot read {name}: it is a link") from error
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise NotFound(f"cannot read {name}: it is no plain file")
        return file

    return open_file

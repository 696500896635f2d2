"""Archives of folders whose bytes depend on names, content and mode alone: no times, no owners, no order of a disk."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from afo.errors import SpecError
from afo.storage.regular_file import special_kind


def write_archive(folder: Path, members: Iterable[Path], file: IO[bytes], *, level: int = 6) -> None:
    """Write a `.tar.gz` of `members`, which lie inside of `folder`, in the order given. `level`: gzip's, 1 to 9."""
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=level, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in members:
            _add(archive, path, str(path.relative_to(folder)))


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    # Two names of one file on this disk are two files in the archive: another disk may hold them as such.
    archive.inodes = {}  # type: ignore[attr-defined]
    if kind := special_kind(path.lstat().st_mode):
        raise SpecError(f"{path} is {kind}, which an archive does not take along; remove it")
    info = archive.gettarinfo(str(path), name)
    info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
    if not info.issym():
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    if info.isreg():
        with path.open("rb") as file:
            archive.addfile(info, file)
    else:
        archive.addfile(info, io.BytesIO())

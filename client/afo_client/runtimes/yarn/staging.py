"""Files that containers need, put where YARN finds them: once each, by content.

    <fs.defaultFS>/user/<user>/.afo/cache/<sha256>/<name>

A file that is there already is not sent again, and a NodeManager that has unpacked it for an earlier job of the same
user uses it as it is. What is secret or made for one submission never comes here (see `afo.yarn.submission.PRIVATE`).
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

from msgspec import Struct

from afo import storage
from afo.errors import ClusterUnreachable, NotFound, SpecError
from afo.hadoop import conf
from afo.job.paths import check_job_id
from afo.yarn.submission import HADOOP_CONF, SCHEMA, PlannedFile, SubmitPlan
from afo_client.packing.archive import write_archive

_BLOCK = 1024 * 1024
_CONF_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


class StagedFile(Struct, frozen=True, kw_only=True):
    """A file of the cache. `sent` is False where its content was there already (or nothing was to be sent)."""

    name: str
    url: str
    size: int = 0
    sent: bool = False


def stage(plan: SubmitPlan, cache: str, *, send: bool = True) -> tuple[StagedFile, ...]:
    """Bring every shared file of the plan into the directory `cache`; with `send=False` only say where it would be.

    Raises `NotFound` for a local file that is not there, `SpecError` for an archive that is none, and what
    `afo.storage` raises.
    """
    schema = _stage_bytes(SCHEMA, plan.schema.encode(), cache, send)
    return (schema, *(_stage(file, cache, send) for file in plan.files))


def cache_url(user: str) -> str:
    """The user's cache. Raises `ClusterUnreachable` where no file system is configured."""
    return storage.join(_home_url(user), ".afo", "cache")


def remove_private(application_id: str, user: str) -> None:
    """Remove what skein keeps of an application that was killed, so that its ApplicationMaster could not do it."""
    folder = storage.join(_home_url(user), ".skein", check_job_id(application_id))
    storage.delete(folder, recursive=True, missing_ok=True)


def _home_url(user: str) -> str:
    base = conf.setting("fs.defaultFS")
    if not base:
        raise ClusterUnreachable(f"core-site.xml in {conf.conf_dir()} does not set fs.defaultFS")
    return storage.join(base, "user", user)


def _stage(file: PlannedFile, cache: str, send: bool) -> StagedFile:
    if "://" in file.source and not file.source.startswith("file://"):
        if re.search(r"[?#;]", file.source):
            raise SpecError(f"{file.source}: YARN cannot read a URL with `?`, `#` or `;`")
        return StagedFile(name=file.name, url=file.source)
    path = Path(file.source.removeprefix("file://"))
    if not path.exists():
        raise NotFound(f"{path} is to be sent to every container as {file.name!r}, but does not exist")
    if not path.is_dir():
        # A node knows by the ending of an archive's name how to unpack it.
        name = path.name if file.archive else file.name
        return _stage_file(name, path, cache, send, container_name=file.name)
    with _pack_folder(path, _CONF_FILES if file.name == HADOOP_CONF else None) as archive:
        return _stage_file(f"{file.name}.tar.gz", archive, cache, send, container_name=file.name)


def _stage_bytes(name: str, content: bytes, cache: str, send: bool) -> StagedFile:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return _stage_file(name, Path(file.name), cache, send)


def _stage_file(name: str, path: Path, cache: str, send: bool, container_name: str = "") -> StagedFile:
    size = path.stat().st_size
    url = storage.join(cache, _sha256(path), re.sub(r"[^A-Za-z0-9._-]", "_", name))
    # The name appears when the content is whole, so a name of the right size is the content.
    missing = send and not (storage.exists(url) and storage.info(url).size == size)
    if missing:
        storage.make_dirs(storage.parent(url), mode=0o700)
        storage.upload(str(path), url)
    return StagedFile(name=container_name or name, url=url, size=size, sent=missing)


def _sha256(path: Path) -> str:
    with storage.open_input(str(path)) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


@contextmanager
def _pack_folder(folder: Path, only: tuple[str, ...] | None) -> Iterator[Path]:
    """A temporary archive of a folder; the same content gives the same bytes."""
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        write_archive(folder, _members(folder, only), file)
        file.flush()
        yield Path(file.name)


def _members(folder: Path, only: tuple[str, ...] | None) -> list[Path]:
    if only is not None:
        return [folder / name for name in only if (folder / name).is_file()]
    found = (
        Path(directory, name)
        for directory, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if "__pycache__" not in Path(directory, name).parts
    )
    return sorted(found)

"""Incremental export: a version of a model that holds what changed since another one.

    serving/ctr/1764403200/assets/table-0.rows      all rows
    serving/ctr/1764403230/assets/table-0.rows      rows that changed, keys that were removed, and where the others are
    serving/ctr/1764403230/variables/…              all dense weights, as in every version

Each version is a SavedModel: whoever loads one gets all of the model, as long as those that it needs are there.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from afo import storage
from afo.checkpoint.restore import CheckpointReader
from afo.errors import AfoError, AlreadyExists, DataError, NotFound, Unsupported
from afo.job import Export, RowType, TableKind
from afo.logs.task_log import LOG
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows
from afo.train.exports.export import describe, save_model, upload
from afo.train.setup import JobParts
from afo.trainable.served import export_versions
from afo.trainable.served.export_versions import Version
from afo.trainable.served.native_table import SUFFIX, file_name
from afo.trainable.served.rows_file import ChangedRows, Parent
from afo.trainable.served.rows_header import MOST_HEADER_BYTES, check_table, read_header

#: Directory of a SavedModel's files beside its graph.
_ASSETS = "assets"


class Versions(NamedTuple):
    """Where versions go, and how many of which kind stay there."""

    base_path: str
    full_every: int = Export().full_every
    keep: int = Export().keep


class Written(NamedTuple):
    """A version that was written, its bytes, and why it is whole, '' for changes."""

    version: Version
    bytes: int
    why_whole: str


def export_version(
    parts: JobParts,
    reader: CheckpointReader,
    versions: Versions,
    scratch: Path,
    rows: RowType,
    tables: TableKind,
    user_features: tuple[str, ...] = (),
) -> Written:
    """Write the next version of a checkpoint's model, with changes alone where one is there that they can be of, and
    remove old ones.

    Raises Unsupported for tables that have no changes, AlreadyExists where another writer was first, and as `export`.
    """
    if tables == "frozen" and versions.full_every > 1:
        raise Unsupported("frozen tables have no changes; write versions with `tables: native` or `tables: mapped`")
    if storage.exists(storage.join(versions.base_path, "saved_model.pb")):
        raise AlreadyExists(f"{versions.base_path} is a SavedModel; versions need a directory of their own")
    there = export_versions.list_versions(versions.base_path)
    number = export_versions.next_number(there)
    about = describe(parts, reader, rows, tables, user_features)
    parent, why_whole = _parent(there, reader, versions.full_every, rows)
    if parent is None:
        local = save_model(parts, reader, scratch, about)
    else:
        about = structs.replace(about, parent=parent.number, deltas=there[-1].exported.deltas + 1)
        with _ChangesReader(reader.url, scratch / "changes", parent) as changes:
            local = save_model(parts, changes, scratch, about)
    url = storage.join(versions.base_path, str(number))
    size = sum(path.stat().st_size for path in local.rglob("*") if path.is_file())
    _publish(local, url)
    for gone in export_versions.remove_old(versions.base_path, versions.keep):
        LOG.info("removed version %d of %s", gone, versions.base_path)
    return Written(Version(number, url, about), size, why_whole)


def _publish(local: Path, url: str) -> None:
    """Raises AlreadyExists where another writer has written a version of this number: that one stays."""
    hidden = storage.join(storage.parent(url), export_versions.hidden_name(int(storage.name(url))))
    try:
        upload(local, hidden)
        if storage.exists(url):
            raise AlreadyExists(f"{url} was written meanwhile by another export; export again for a version after it")
        # Onto nothing: a directory that came in between is not replaced.
        storage.rename(hidden, url)
    except BaseException:
        with suppress(AfoError):
            storage.delete(hidden, recursive=True)
        raise


def _parent(
    there: list[Version], reader: CheckpointReader, full_every: int, rows: RowType
) -> tuple[Version | None, str]:
    """The version whose changes the next one has; or None, and why it is whole."""
    if full_every == 1:
        return None, "each version is"
    if not there:
        return None, "it is the first version"
    if reader.manifest.tables is None:
        return None, "the model has no hash tables"
    if any(version.exported.rows != rows or version.exported.tables == "frozen" for version in there):
        return None, "others there have tables of another form"
    if not reader.bases():
        return None, "its checkpoint holds all rows and no changes (`checkpoint.full_every`)"
    parent = export_versions.choose_parent(there, reader.bases(), full_every)
    if parent is None:
        return None, f"one in {full_every} is, and so is one whose checkpoint stands on that of no version there"
    try:
        _parent_table(parent, 0)
        _check_tables(parent)
    except (NotFound, DataError) as error:
        return None, str(error)
    return parent, ""


def _check_tables(version: Version) -> None:
    """Nothing that stands on a version that servers refuse is served. Raises NotFound, or DataError."""
    for entry in storage.list_dir(storage.join(version.url, _ASSETS)):
        if storage.name(entry.url).endswith(SUFFIX):
            check_table(entry.url, entry.size)


def _parent_table(parent: Version, place: int) -> Parent:
    """Of a version, by its place among the model's tables. Raises NotFound, or DataError for a file of another form."""
    url = storage.join(parent.url, _ASSETS, file_name(place))
    with storage.open_input(url) as file:
        header = read_header(file.read(MOST_HEADER_BYTES), url)
    return Parent(header.id, f"../../{parent.number}/{_ASSETS}/{file_name(place)}")


class _ChangesReader(CheckpointReader):
    """A checkpoint whose hash tables are only what became of a version's."""

    def __init__(self, url: str, scratch: Path, parent: Version) -> None:
        super().__init__(url, scratch)
        self._parent = parent

    def hash_tables(self, dims: Mapping[str, int]) -> Mapping[str, Rows | MergedRows | ChangedRows]:  # type: ignore[override]
        """As ever, but the changes."""
        changed = self.changed_tables(dims, self._parent.exported.directory)
        return {name: ChangedRows(changed[name], _parent_table(self._parent, place)) for place, name in enumerate(dims)}

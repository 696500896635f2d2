"""Incremental export: a version of a model that holds what changed since another one.

    serving/ctr/1764403200/assets/table-0.rows      all rows
    serving/ctr/1764403230/assets/table-0.rows      rows that changed, keys that were removed, and where the others are
    serving/ctr/1764403230/variables/…              all dense weights, as in every version

Each version is a SavedModel: whoever loads one gets all of the model, as long as those that it needs are there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from afo import storage
from afo.checkpoint.restore import CheckpointReader
from afo.embedding.merged_rows import MergedRows
from afo.embedding.saved_tables import Rows
from afo.errors import AlreadyExists, DataError, NotFound, Unsupported
from afo.job import Export, RowType, TableKind
from afo.logs.task_log import LOG, one_line
from afo.train.export import describe, save_model, upload
from afo.train.setup import JobParts
from afo.trainable.served import export_versions
from afo.trainable.served.export_versions import Version
from afo.trainable.served.native_table import file_name
from afo.trainable.served.rows_file import HEADER_BYTES, ChangedRows, Parent, read_id

#: Directory of a SavedModel's files beside its graph.
_ASSETS = "assets"


class Versions(NamedTuple):
    """Where versions go, and how many of which kind stay there."""

    base_path: str
    full_every: int = Export().full_every
    keep: int = Export().keep


class Written(NamedTuple):
    """A version that was written, and its bytes."""

    version: Version
    bytes: int


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
    parent = _parent(there, reader, versions.full_every, rows)
    if parent is None:
        local = save_model(parts, reader, scratch, about)
    else:
        about = structs.replace(about, parent=parent.number, deltas=there[-1].exported.deltas + 1)
        with _ChangesReader(reader.url, scratch / "changes", parent) as changes:
            local = save_model(parts, changes, scratch, about)
    url = storage.join(versions.base_path, str(number))
    size = sum(path.stat().st_size for path in local.rglob("*") if path.is_file())
    # Renamed onto nothing: another writer's version of this number stays.
    storage.rename(upload(local, url), url)
    for gone in export_versions.remove_old(versions.base_path, versions.keep):
        LOG.info("removed version %d of %s", gone, versions.base_path)
    return Written(Version(number, url, about), size)


def _parent(there: list[Version], reader: CheckpointReader, full_every: int, rows: RowType) -> Version | None:
    if reader.manifest.tables is None:
        return None
    alike = [version for version in there if version.exported.rows == rows and version.exported.tables != "frozen"]
    parent = export_versions.choose_parent(alike, reader.bases(), full_every) if alike == there else None
    try:
        if parent is not None:
            _parent_table(parent, 0)
    except (NotFound, DataError) as error:
        LOG.warning("the next version is whole: %s", one_line(str(error)))
        return None
    return parent


def _parent_table(parent: Version, place: int) -> Parent:
    """Of a version, by its place among the model's tables. Raises NotFound, or DataError for a file of another form."""
    url = storage.join(parent.url, _ASSETS, file_name(place))
    with storage.open_input(url) as file:
        header = file.read(HEADER_BYTES)
    return Parent(read_id(header, url), f"../../{parent.number}/{_ASSETS}/{file_name(place)}")


class _ChangesReader(CheckpointReader):
    """A checkpoint whose hash tables are only what became of a version's."""

    def __init__(self, url: str, scratch: Path, parent: Version) -> None:
        super().__init__(url, scratch)
        self._parent = parent

    def hash_tables(self, dims: Mapping[str, int]) -> Mapping[str, Rows | MergedRows | ChangedRows]:  # type: ignore[override]
        """As ever, but the changes."""
        changed = self.changed_tables(dims, self._parent.exported.directory)
        return {name: ChangedRows(changed[name], _parent_table(self._parent, place)) for place, name in enumerate(dims)}

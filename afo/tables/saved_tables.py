"""Saved embedding tables, as files: what `afo.embedding.checkpoint` writes, read without any server.

<url>/rows-<server>-<part>.afo     files of `afo.tables.row_block`
<url>/tables.json                  the manifest, written last; without it there is no checkpoint
"""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Protocol

import google_crc32c
import msgspec
import numpy as np
from msgspec import Meta

from afo import storage
from afo.errors import DataError, SpecError
from afo.formats import manifest_file
from afo.formats.manifest_file import Formats
from afo.job import UpdateRule
from afo.job.paths import check_name
from afo.job.section import MOST_DIM
from afo.tables import row_block
from afo.tables.slot_map import SLOTS, SlotMap

MANIFEST = "tables.json"
#: Format 1 names the base of a delta by its URL; 2 has no filters of keys, 3 no checksum of itself.
FORMAT_VERSION = 4
#: The same with `slot_starts`, written where ranges are not equal: whoever reads format 4 alone has to refuse it.
RANGES_VERSION = 5
_FORMATS = Formats("tables", newest=RANGES_VERSION, sealed=4)
#: Rows that are made ready at a time.
_PIECE_BYTES = 16 << 20
#: Deltas on one whole checkpoint: a restore reads all of them.
MOST_DELTAS = 200

#: As the engine counts.
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class SavedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as it was saved. `optimizer`: class of its rule. `powers`: most updates that a server had counted."""

    name: str
    dim: Annotated[int, Meta(ge=1, le=MOST_DIM)]
    optimizer: str
    powers: Count


class RowsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rows that server `server` of the manifest's `servers` held."""

    file: str
    server: Count
    size: Count
    crc32c: int


class TablesManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """All of one checkpoint. `base`: where the one is whose changes it holds, from its directory; None: it is whole.
    `slot_starts`: the first slot of each server; None: the servers had equal ranges."""

    version: int
    servers: Annotated[int, Meta(ge=1, le=SLOTS)]
    base: str | None
    tables: tuple[SavedTable, ...]
    files: tuple[RowsFile, ...]
    slot_starts: tuple[int, ...] | None = None

    @property
    def slots(self) -> SlotMap:
        """Which server owned which keys. Raises SpecError for starts that are no map."""
        return SlotMap.equal(self.servers) if self.slot_starts is None else SlotMap(self.slot_starts)


def manifest_of(
    slots: SlotMap, *, base: str | None, tables: tuple[SavedTable, ...], files: tuple[RowsFile, ...]
) -> TablesManifest:
    """The manifest of what the servers of a map have written."""
    return TablesManifest(
        version=FORMAT_VERSION if slots.is_equal else RANGES_VERSION,
        servers=slots.servers,
        base=base,
        tables=tables,
        files=files,
        slot_starts=None if slots.is_equal else slots.starts,
    )


def read_manifest(url: str) -> TablesManifest:
    """Raises NotFound, or DataError for one that is damaged, malformed, of a format this program does not know, or that
    names files elsewhere, files of a server that it does not have, or two tables alike."""
    manifest = manifest_file.read(url, TablesManifest, _FORMATS)
    _check_servers(manifest, url)
    if len({table.name for table in manifest.tables}) < len(manifest.tables):
        raise manifest_file.damage_error(url, "it has two tables of one name")
    for entry in manifest.files:
        check_name(entry.file, url)
    return manifest


def _check_servers(manifest: TablesManifest, url: str) -> None:
    """What ownership needs: a map of as many servers as there are, and no file of another server."""
    starts, servers = manifest.slot_starts, manifest.servers
    if (starts is None) == (manifest.version >= RANGES_VERSION):
        having = "no slot_starts" if starts is None else "slot_starts"
        raise manifest_file.damage_error(
            url, f"it is of format {manifest.version} and has {having}, which format {RANGES_VERSION} alone has"
        )
    if starts is not None and len(starts) != servers:
        raise manifest_file.damage_error(url, f"it has {len(starts)} slot_starts for {servers} servers")
    try:
        slots = manifest.slots
    except SpecError as error:
        raise manifest_file.damage_error(url, str(error)) from error
    for entry in manifest.files:
        if entry.server >= slots.servers:
            why = f"{entry.file} is of server {entry.server}, and its servers are {servers}"
            raise manifest_file.damage_error(url, why)


def chain(url: str, within: str | None = None) -> list[tuple[str, TablesManifest]]:
    """The whole checkpoint first, then its deltas up to `url`.

    `within`: the directory that all of them lie in; a delta that stands on another place is a DataError, and one whose
    tables are others, for its files know them by their numbers.
    """
    found: list[tuple[str, TablesManifest]] = []
    following: str | None = url
    while following is not None:
        if len(found) > MOST_DELTAS or following in (path for path, _ in found):
            raise DataError(f"{url}: its deltas do not lead to a whole checkpoint")
        manifest = read_manifest(following)
        if found and _kinds(manifest) != _kinds(found[-1][1]):
            raise DataError(f"{found[-1][0]}: its tables are not those of {following}, which it stands on")
        found.append((following, manifest))
        following = None if manifest.base is None else _base_of(following, manifest.base, within)
    return found[::-1]


def _kinds(manifest: TablesManifest) -> list[tuple[str, int, str]]:
    return [(table.name, table.dim, table.optimizer) for table in manifest.tables]


def _base_of(url: str, reference: str, within: str | None) -> str:
    base = storage.resolve(storage.parent(url), reference)
    if storage.name(base) != MANIFEST or (within is not None and not storage.is_below(base, within)):
        place = f"one in {within}" if within else f"one, which is called {MANIFEST}"
        raise DataError(f"{url}: it stands on {reference!r}, where a checkpoint of tables stands on {place}")
    return base


class SavedBlock(NamedTuple):
    """A block of table `number` of a manifest: its bytes, and the arrays that share their memory."""

    number: int
    content: bytes
    rows: row_block.RowBlock

    @property
    def is_of_filter(self) -> bool:
        """Whether it is what the table's filter knows, and has no rows."""
        return row_block.is_of_filter(self.content)


def file_blocks(url: str, manifest: TablesManifest, entry: RowsFile) -> Iterator[SavedBlock]:
    """The blocks of a file of `manifest`, which lies at `url`.

    Each block is whole, and no more than the manifest says is read. Raises DataError for a damaged file, at the latest
    at its end: nothing that came before counts then.
    """
    path = storage.join(storage.parent(url), entry.file)
    checksum, size = google_crc32c.Checksum(), 0
    with storage.open_input(path) as file:
        for number, block in row_block.read_blocks(file, path, entry.size):
            if number >= len(manifest.tables):
                raise DataError(f"{path} is damaged: it names table {number} of {len(manifest.tables)}")
            for piece in (row_block.head_of(number, block), block):
                checksum.update(piece)
                size += len(piece)
            found = SavedBlock(number, block, row_block.decode(block, path))
            if not found.is_of_filter:
                _check_width(found.rows, manifest.tables[number], path)
            yield found
    if (size, int.from_bytes(checksum.digest())) != (entry.size, entry.crc32c):
        raise DataError(f"{path} is damaged: {size} bytes, where the manifest says {entry.size} with another checksum")


def _check_width(rows: row_block.RowBlock, table: SavedTable, path: str) -> None:
    """Weights alone, or with the slots of the table's rule, which numpy would cut or spread to any width."""
    slots = {rule.__name__: rule.slots for rule in UpdateRule.__subclasses__()}.get(table.optimizer)
    width, dim = rows.values.shape[1], table.dim
    # A rule of somebody's own has as many slots as it says: any number.
    fits = width >= dim and width % dim == 0 if slots is None else width in (dim, dim * (1 + slots))
    if not fits:
        wanted = f"{dim} or more" if slots is None else " or ".join(map(str, sorted({dim, dim * (1 + slots)})))
        raise DataError(
            f"{path} is damaged: rows of {width} floats of table `{table.name}`, whose rows with {table.optimizer} have"
            f" {wanted}"
        )


class Rows(NamedTuple):
    """The weights of a table as numpy arrays: int64 [n], ascending, and float32 [n, dim]."""

    keys: Any
    weights: Any

    @property
    def dim(self) -> int:
        """Of `RowSource`."""
        return int(self.weights.shape[1])

    def pieces(self) -> Iterator["Rows"]:
        """Of `RowSource`."""
        count = max(1, _PIECE_BYTES // (4 * self.dim))
        for first in range(0, len(self.keys), count):
            yield Rows(self.keys[first : first + count], self.weights[first : first + count])


class RowSource(Protocol):
    """The rows of a table, in memory or not."""

    @property
    def dim(self) -> int:
        """Weights of a row."""

    def pieces(self) -> Iterator[Rows]:
        """All rows in order, a part at a time; any number of times."""


def read_rows(url: str, within: str | None = None) -> dict[str, Rows]:
    """All tables that the manifest at `url` and those that it stands on, `within` a directory, hold, by name.

    Raises NotFound, or DataError for damaged files.
    """
    manifests = chain(url, within)
    tables = manifests[-1][1].tables
    held = [Rows(np.empty(0, np.int64), np.empty((0, table.dim), np.float32)) for table in tables]
    for path, manifest in manifests:
        changes: list[list[row_block.RowBlock]] = [[] for _ in tables]
        for entry in manifest.files:
            for block in file_blocks(path, manifest, entry):
                if block.is_of_filter:
                    continue
                changes[block.number].append(_weights(block.rows, tables[block.number].dim))
        held = [_apply_blocks(before, blocks) for before, blocks in zip(held, changes, strict=True)]
    return {table.name: rows for table, rows in zip(tables, held, strict=True)}


def _weights(block: row_block.RowBlock, dim: int) -> row_block.RowBlock:
    """Without the slots, whose memory is given back."""
    return block._replace(values=block.values[:, :dim].copy())


def _apply_blocks(before: Rows, blocks: list[row_block.RowBlock]) -> Rows:
    """What a checkpoint's blocks make of the rows that were there."""
    gone = np.concatenate([before.keys[:0], *(block.removed for block in blocks), *(block.keys for block in blocks)])
    stays = ~np.isin(before.keys, gone)
    keys = np.concatenate([before.keys[stays], *(block.keys for block in blocks)])
    weights = np.concatenate([before.weights[stays], *(block.values for block in blocks)])
    order = np.argsort(keys, kind="stable")
    return Rows(keys[order], weights[order])

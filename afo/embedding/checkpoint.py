"""Checkpoints of embedding tables: whole ones, and deltas of what changed since (`afo.embedding.saved_tables`).

Training goes on while one is written: each row is of one instant, and what changes meanwhile is in the next delta too.
A checkpoint is read by any number of servers.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import google_crc32c
import numpy as np

from afo import storage
from afo.embedding import row_block, saved_tables, snapshot
from afo.embedding.group import TableGroup
from afo.embedding.save_times import SaveTimes
from afo.embedding.saved_tables import RowsFile, SavedTable, TablesManifest
from afo.embedding.server_tables import Table
from afo.embedding.snapshot import Slice
from afo.errors import AfoError, DataError
from afo.formats import manifest_file

#: Files that are read or written at a time.
_STREAMS = 8
#: A server with more than this writes several files at a time.
_LARGE_BYTES = 256 << 20
_PARTS = 4
_SLOTS = 1 << 16


class _Target(NamedTuple):
    """Where rows of a saved table go: a table of the group, with their slots or without."""

    number: int
    weights_only: bool = False


class TableSaver:
    """Saves the tables of a group; remembers what the next delta can stand on. Only one process may save a group.

    A server that lost its tables needs another object.
    """

    def __init__(self, group: TableGroup, most_deltas: int = saved_tables.MOST_DELTAS) -> None:
        """After `most_deltas` in a row the next checkpoint is whole."""
        self._group = group
        self._most_deltas = most_deltas
        #: URL of the last checkpoint and, by server and table, the epoch that began with it.
        self._base: tuple[str, np.ndarray] | None = None
        self._deltas = 0

    @property
    def is_delta(self) -> bool:
        """Whether the last checkpoint stands on another."""
        return self._deltas > 0

    def forget(self) -> None:
        """The last checkpoint does not stay: the next one is whole."""
        self._base, self._deltas = None, 0

    def save(self, url: str, *, incremental: bool = False, times: SaveTimes | None = None) -> str:
        """Writes a checkpoint into the new directory `url`; returns its manifest's URL. What it takes goes to `times`.

        `incremental`: what changed since the last one that this object saved; whole where there is none, or too many
        deltas have followed. Raises AfoError; the last checkpoint is still the one that the next delta stands on.
        """
        group, times = self._group, times or SaveTimes()
        base = self._base if incremental and self._deltas < self._most_deltas else None
        epochs, powers = _begin_epochs(group)
        since = np.full_like(epochs, -1) if base is None else base[1]
        with ThreadPoolExecutor(_STREAMS, thread_name_prefix="tables") as pool:
            files = tuple(
                pool.map(lambda place: _write(group, place, since[place.server].tolist(), url, times), _slices(group))
            )
        manifest = TablesManifest(
            version=saved_tables.FORMAT_VERSION,
            servers=group.servers,
            base=None if base is None else storage.relative(base[0], url),
            tables=tuple(
                _describe_table(table, int(powers[:, number].max())) for number, table in enumerate(group.tables)
            ),
            files=files,
        )
        path = storage.join(url, saved_tables.MANIFEST)
        storage.write_bytes(path, manifest_file.encode(manifest), overwrite=False)
        self._base = path, epochs
        self._deltas = 0 if base is None else self._deltas + 1
        for server in range(group.servers):
            group.server(server).forget_removed(epochs[server].tolist())
        return path


def restore(
    group: TableGroup, url: str, servers: Sequence[int] | None = None, within: str | None = None
) -> int:  # fmt: skip
    """Fills the tables of a group out of the manifest at `url` and those that it stands on; returns the rows read.

    `servers`: only these. What they held before is dropped, also where an error ends it: no table is left half read.
    `within`: the directory that all of these manifests lie in. Raises NotFound, or DataError for damaged files or
    tables of another kind.
    """
    wanted = list(range(group.servers)) if servers is None else list(servers)
    chain = saved_tables.chain(url, within)
    for path, manifest in chain:
        _check_tables(group, path, manifest)
    targets = {number: _Target(number) for number in range(len(group.tables))}
    _clear(group, wanted)
    try:
        rows = sum(_import(group, path, manifest, wanted, targets) for path, manifest in chain)
    except AfoError:
        _clear(group, wanted)
        raise
    for server in wanted:
        group.server(server).set_powers([table.powers for table in chain[-1][1].tables])
    return rows


def take_over(
    group: TableGroup, url: str, names: Collection[str], with_slots: Collection[str], within: str | None = None
) -> int:  # fmt: skip
    """Adds to the tables of a group the rows of those saved ones that have these names; returns the rows read.

    Both have the same width. A table that is not in `with_slots` begins with its own optimizer's first slots.
    `within`: as for `restore`. Raises NotFound, or DataError for damaged files; what was read until then is there.
    """
    chain = saved_tables.chain(url, within)
    saved = chain[-1][1].tables
    numbers = {table.name: number for number, table in enumerate(group.tables)}
    targets = {
        number: _Target(numbers[table.name], weights_only=table.name not in with_slots)
        for number, table in enumerate(saved)
        if table.name in names
    }
    rows = sum(_import(group, path, manifest, range(group.servers), targets) for path, manifest in chain)
    powers = {table.name: table.powers for table in saved if table.name in with_slots}
    for server in range(group.servers):
        group.server(server).set_powers([powers.get(table.name, 0) for table in group.tables])
    return rows


def _check_tables(group: TableGroup, path: str, manifest: TablesManifest) -> None:
    own = [(table.name, table.dim, type(table.optimizer).__name__) for table in group.tables]
    saved = [(table.name, table.dim, table.optimizer) for table in manifest.tables]
    for number, (mine, theirs) in enumerate(zip(own, saved, strict=False)):
        if mine != theirs:
            raise DataError(f"{path}: table {number} is {_words(theirs)}, and the model has {_words(mine)}")
    if len(own) != len(saved):
        raise DataError(f"{path} holds {len(saved)} tables, and the model has {len(own)}")


def _words(table: tuple[str, int, str]) -> str:
    return f"`{table[0]}` of width {table[1]} with {table[2]}"


def _describe_table(table: Table, powers: int) -> SavedTable:
    return SavedTable(table.name, table.dim, type(table.optimizer).__name__, powers)


def _slices(group: TableGroup) -> list[Slice]:
    """A file for each server, several for one that holds much."""
    held = group.sizes()[1].sum(axis=1)
    counts = [_PARTS if size > _LARGE_BYTES else 1 for size in held]
    return [Slice(server, part, parts) for server, parts in enumerate(counts) for part in range(parts)]


def _write(group: TableGroup, place: Slice, since: list[int], url: str, times: SaveTimes) -> RowsFile:
    name = f"rows-{place.server:04d}-{place.part}.afo"
    checksum = google_crc32c.Checksum()
    with times.stream(place.server) as stream, storage.open_output(storage.join(url, name)) as file:
        for number, block in stream.read(snapshot.blocks(group, place, since)):
            record = row_block.record_of(number, block)
            file.write(record)
            checksum.update(record)
            stream.bytes += len(record)
    return RowsFile(name, place.server, stream.bytes, int.from_bytes(checksum.digest()))


def _import(
    group: TableGroup, url: str, manifest: TablesManifest, wanted: Collection[int], targets: Mapping[int, _Target]
) -> int:
    """Rows of one manifest, file by file to the servers that own a part of what it can hold."""

    def import_file(entry: RowsFile) -> int:
        owners = [server for server in _owners(entry.server, manifest.servers, group.servers) if server in wanted]
        return _import_file(group, url, manifest, entry, owners, targets) if owners else 0

    with ThreadPoolExecutor(_STREAMS, thread_name_prefix="tables") as pool:
        return sum(pool.map(import_file, manifest.files))


def _import_file(
    group: TableGroup, url: str, manifest: TablesManifest, entry: RowsFile, servers: list[int],
    targets: Mapping[int, _Target],
) -> int:  # fmt: skip
    rows = 0
    for block in saved_tables.file_blocks(url, manifest, entry):
        target = targets.get(block.number)
        if target is None:
            continue
        content = block.content
        if target.weights_only and not block.is_of_filter:
            content = row_block.weights_only(block.rows, group.tables[target.number].dim)
        rows += sum(
            snapshot.import_block(group, server, target.number, content, url, weights_only=target.weights_only)
            for server in servers
        )
    return rows


def _owners(server: int, of: int, servers: int) -> range:
    """Which of `servers` own keys that server `server` of `of` owned: both have slots in order (afo/core/hash.h)."""
    first = -(-server * _SLOTS // of)
    last = -(-(server + 1) * _SLOTS // of) - 1
    return range(first * servers // _SLOTS, last * servers // _SLOTS + 1)


def _begin_epochs(group: TableGroup) -> tuple[np.ndarray, np.ndarray]:
    """(epochs, powers), [servers, tables] each."""
    begun = [group.server(server).begin_epoch() for server in range(group.servers)]
    return np.stack([epochs for epochs, _ in begun]), np.stack([powers for _, powers in begun])


def _clear(group: TableGroup, servers: list[int]) -> None:
    for server in servers:
        group.server(server).clear()

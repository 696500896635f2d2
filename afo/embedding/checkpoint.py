"""Checkpoints of embedding tables: whole ones, and deltas of what changed since.

    <url>/rows-<server>-<part>.afo     files of `afo.embedding.snapshot`
    <url>/tables.json                  the manifest, written last; without it there is no checkpoint

Training goes on while one is written: each row is of one instant, and what changes meanwhile is in the next delta too.
A checkpoint is read by any number of servers.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import google_crc32c
import msgspec
import numpy as np
import tensorflow as tf

from afo import storage
from afo.embedding import snapshot
from afo.embedding.group import Table, TableGroup
from afo.embedding.snapshot import Slice
from afo.errors import AfoError, DataError
from afo.ops.library import load

MANIFEST = "tables.json"
FORMAT_VERSION = 1
#: Files that are read or written at a time.
_STREAMS = 8
#: A server with more than this writes several files at a time.
_LARGE_BYTES = 256 << 20
_PARTS = 4
#: Deltas on one whole checkpoint: a restore reads all of them.
_MOST_DELTAS = 200
_SLOTS = 1 << 16


class SavedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as it was saved. `optimizer`: class of its rule. `powers`: most updates that a server had counted."""

    name: str
    dim: int
    optimizer: str
    powers: int


class RowsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rows that server `server` of the manifest's `servers` held."""

    file: str
    server: int
    size: int
    crc32c: int


class TablesManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of one checkpoint. `base`: URL of the one whose changes it holds; None: it is whole."""

    version: int
    servers: int
    base: str | None
    tables: tuple[SavedTable, ...]
    files: tuple[RowsFile, ...]


class TableSaver:
    """Saves the tables of a group; remembers what the next delta can stand on. Only one process may save a group."""

    def __init__(self, group: TableGroup) -> None:
        self._group = group
        #: URL of the last checkpoint and, by server and table, the epoch that began with it.
        self._base: tuple[str, np.ndarray] | None = None
        self._deltas = 0

    def save(self, url: str, *, incremental: bool = False) -> str:
        """Writes a checkpoint into the new directory `url`; returns its manifest's URL.

        `incremental`: what changed since the last one that this object saved; whole where there is none, or too many
        deltas have followed. Raises AfoError; the last checkpoint is still the one that the next delta stands on.
        """
        group, numbers = self._group, list(range(len(self._group.tables)))
        base = self._base if incremental and self._deltas < _MOST_DELTAS else None
        epochs, powers = _begin_epochs(group, numbers)
        since = np.full_like(epochs, -1) if base is None else base[1]
        with ThreadPoolExecutor(_STREAMS, thread_name_prefix="tables") as pool:
            written = pool.map(lambda place: _write(group, place, since[place.server].tolist(), url), _slices(group))
            files = tuple(written)
        manifest = TablesManifest(
            version=FORMAT_VERSION,
            servers=group.servers,
            base=None if base is None else base[0],
            tables=tuple(_saved(table, int(powers[:, number].max())) for number, table in enumerate(group.tables)),
            files=files,
        )
        path = storage.join(url, MANIFEST)
        storage.write_bytes(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1), overwrite=False)
        self._base = path, epochs
        self._deltas = 0 if base is None else self._deltas + 1
        _forget_removed(group, numbers, epochs)
        return path


def read_manifest(url: str) -> TablesManifest:
    """Raises NotFound, or DataError for one that is malformed or of a version this program does not know."""
    try:
        manifest = msgspec.json.decode(storage.read_bytes(url), type=TablesManifest)
    except msgspec.MsgspecError as error:
        raise DataError(f"{url}: malformed manifest of embedding tables: {error}") from error
    if manifest.version != FORMAT_VERSION:
        raise DataError(f"{url}: tables of format {manifest.version}; this version of afo reads {FORMAT_VERSION}")
    return manifest


def restore(group: TableGroup, url: str, servers: Sequence[int] | None = None) -> int:
    """Fills the tables of a group out of the manifest at `url` and those that it stands on; returns the rows read.

    `servers`: only these. What they held before is dropped, also where an error ends it: no table is left half read.
    Raises NotFound, or DataError for damaged files or tables of another kind.
    """
    wanted = list(range(group.servers)) if servers is None else list(servers)
    chain = _chain(url)
    for path, manifest in chain:
        _check_tables(group, path, manifest)
    _clear(group, wanted)
    try:
        rows = sum(_import(group, path, manifest, wanted) for path, manifest in chain)
    except AfoError:
        _clear(group, wanted)
        raise
    powers = [table.powers for table in chain[-1][1].tables]
    for server in wanted:
        with tf.device(group.devices[server]):
            load().afo_set_powers(group.handle(server), powers, numbers=list(range(len(powers))))
    return rows


def _chain(url: str) -> list[tuple[str, TablesManifest]]:
    """The whole checkpoint first, then its deltas up to `url`."""
    found: list[tuple[str, TablesManifest]] = []
    following: str | None = url
    while following is not None:
        if len(found) > _MOST_DELTAS or following in (path for path, _ in found):
            raise DataError(f"{url}: its deltas do not lead to a whole checkpoint")
        found.append((following, read_manifest(following)))
        following = found[-1][1].base
    return found[::-1]


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


def _saved(table: Table, powers: int) -> SavedTable:
    return SavedTable(table.name, table.dim, type(table.optimizer).__name__, powers)


def _slices(group: TableGroup) -> list[Slice]:
    """A file for each server, several for one that holds much."""
    held = group.sizes()[1].sum(axis=1)
    counts = [_PARTS if size > _LARGE_BYTES else 1 for size in held]
    return [Slice(server, part, parts) for server, parts in enumerate(counts) for part in range(parts)]


def _write(group: TableGroup, place: Slice, since: list[int], url: str) -> RowsFile:
    name = f"rows-{place.server:04d}-{place.part}.afo"
    checksum, size = google_crc32c.Checksum(), 0
    with storage.open_output(storage.join(url, name)) as file:
        for number, block in snapshot.blocks(group, place, since):
            record = snapshot.record_of(number, block)
            file.write(record)
            checksum.update(record)
            size += len(record)
    return RowsFile(name, place.server, size, int.from_bytes(checksum.digest()))


def _import(group: TableGroup, path: str, manifest: TablesManifest, wanted: list[int]) -> int:
    """Rows of one manifest, file by file to the servers that own a part of what it can hold."""

    def one(entry: RowsFile) -> int:
        owners = [server for server in _owners(entry.server, manifest.servers, group.servers) if server in wanted]
        return _import_file(group, storage.join(storage.parent(path), entry.file), entry, owners) if owners else 0

    with ThreadPoolExecutor(_STREAMS, thread_name_prefix="tables") as pool:
        return sum(pool.map(one, manifest.files))


def _import_file(group: TableGroup, url: str, entry: RowsFile, servers: list[int]) -> int:
    rows, checksum, size = 0, google_crc32c.Checksum(), 0
    with storage.open_input(url) as file:
        for number, block in snapshot.read_blocks(file, url):
            if number >= len(group.tables):
                raise DataError(f"{url} is damaged: it names table {number} of {len(group.tables)}")
            record = snapshot.record_of(number, block)
            checksum.update(record)
            size += len(record)
            rows += sum(snapshot.import_block(group, server, number, block, url) for server in servers)
    if (size, int.from_bytes(checksum.digest())) != (entry.size, entry.crc32c):
        raise DataError(f"{url} is damaged: {size} bytes, where the manifest says {entry.size} with another checksum")
    return rows


def _owners(server: int, of: int, servers: int) -> range:
    """Which of `servers` own keys that server `server` of `of` owned: both have slots in order (afo/core/hash.h)."""
    first = -(-server * _SLOTS // of)
    last = -(-(server + 1) * _SLOTS // of) - 1
    return range(first * servers // _SLOTS, last * servers // _SLOTS + 1)


def _begin_epochs(group: TableGroup, numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(epochs, powers), [servers, tables] each."""
    begun = []
    for server, device in enumerate(group.devices):
        with tf.device(device):
            begun.append(load().afo_begin_epoch(group.handle(server), numbers=numbers))
    return np.stack([each.epochs.numpy() for each in begun]), np.stack([each.powers.numpy() for each in begun])


def _forget_removed(group: TableGroup, numbers: list[int], epochs: np.ndarray) -> None:
    for server, device in enumerate(group.devices):
        with tf.device(device):
            load().afo_forget_removed(group.handle(server), epochs[server], numbers=numbers)


def _clear(group: TableGroup, servers: list[int]) -> None:
    for server in servers:
        with tf.device(group.devices[server]):
            load().afo_clear_tables(group.handle(server), numbers=list(range(len(group.tables))))

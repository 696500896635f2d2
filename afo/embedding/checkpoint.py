"""Checkpoints of embedding tables: whole ones, and deltas of what changed since (`afo.tables.saved_tables`).

Each server writes and reads its own files (`afo.tables.desk`); this process asks for it, and alone writes manifests.
Training goes on meanwhile: each row is of one instant, and what changes is in the next delta too. A checkpoint is read
by any number of servers.
"""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from afo import storage
from afo.embedding import desk_client
from afo.embedding.group import TableGroup
from afo.embedding.server_tables import Table
from afo.errors import AfoError, DataError
from afo.formats import manifest_file
from afo.tables import saved_tables
from afo.tables.desk_messages import LoadedRows, LoadRequest, SavedRows, SaveRequest, Source, Target
from afo.tables.save_times import SaveTimes
from afo.tables.saved_tables import RowsFile, SavedTable, TablesManifest

#: A server writes a file for each so many bytes that it holds, up to a number of them: all at once, and each takes some
#: 40 MB of memory meanwhile, which a small server's container may not have.
_PART_BYTES = 256 << 20
_MOST_PARTS = 4


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
        files = _save_rows(group, url, since, times)
        manifest = saved_tables.manifest_of(
            group.slots,
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
    _clear(group, wanted)
    try:
        rows = _load_rows(group, chain, wanted, [Target(number, number) for number in range(len(group.tables))])
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
    targets = [
        Target(number, numbers[table.name], weights_only=table.name not in with_slots)
        for number, table in enumerate(saved)
        if table.name in names
    ]
    rows = _load_rows(group, chain, range(group.servers), targets)
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


def _save_rows(group: TableGroup, url: str, since: np.ndarray, times: SaveTimes) -> tuple[RowsFile, ...]:
    """What all servers have written: a file each, several of one that holds much."""
    storage.make_dirs(url)
    held = group.sizes()[1].sum(axis=1)
    parts = [max(1, min(int(size) // _PART_BYTES, _MOST_PARTS)) for size in held]
    requests = {
        server: SaveRequest(url=url, server=server, parts=parts[server], since=tuple(since[server].tolist()))
        for server in range(group.servers)
    }
    saved = desk_client.ask(group, requests, SavedRows)
    for each in saved:
        times.add(each.times)
    return tuple(file for each in saved for file in each.files)


def _load_rows(
    group: TableGroup, chain: list[tuple[str, TablesManifest]], wanted: Collection[int], targets: Sequence[Target]
) -> int:
    """Rows of all manifests, to the servers that own a part of what a file can hold."""
    requests = {}
    for server in wanted:
        sources = tuple(Source(path, _files_of(manifest, group.slots.range_of(server))) for path, manifest in chain)
        requests[server] = LoadRequest(
            server=server, slots=group.slots, sources=sources, targets=tuple(targets)
        )  # fmt: skip
    return sum(loaded.rows for loaded in desk_client.ask(group, requests, LoadedRows))


def _files_of(manifest: TablesManifest, owned: range) -> TablesManifest:
    """With those files alone that can hold rows of these slots: their servers owned some of them."""
    saved = manifest.slots
    files = [entry for entry in manifest.files if _overlap(saved.range_of(entry.server), owned)]
    return replace(manifest, files=tuple(files))


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _begin_epochs(group: TableGroup) -> tuple[np.ndarray, np.ndarray]:
    """(epochs, powers), [servers, tables] each."""
    begun = [group.server(server).begin_epoch() for server in range(group.servers)]
    return np.stack([epochs for epochs, _ in begun]), np.stack([powers for _, powers in begun])


def _clear(group: TableGroup, servers: list[int]) -> None:
    for server in servers:
        group.server(server).clear()

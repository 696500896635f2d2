"""External merge sort of saved tables: a checkpoint's rows by ascending key, in bounded memory whatever its size.

Rows are gathered, and each time that they are many they are sorted and written as a run; whoever reads a table merges
its runs. Runs lie in files without a name: their room is free once nobody holds them, however the process ends.

run    := record[count], keys rise and differ
record := key int64 | order uint16 | weights float32[dim]

`order` says which of the records of a key counts, the largest: 2 * place of the manifest in its chain, and 1 more where
the row is there; 0 more says that the key was removed, before the manifest's rows came.
"""

import os
import tempfile
import weakref
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from afo.errors import DataError
from afo.storage.local import translate_errors
from afo.tables.saved_tables import Rows, SavedBlock, SavedTable, chain, file_blocks

#: Rows in memory before they are written as a run, and while runs are merged. About five times as much is taken then.
GATHERED_BYTES = 32 << 20


class Changes(NamedTuple):
    """A part of what became of a table: rows, and keys that have none any more; keys of both rise."""

    rows: Rows
    removed: Any


class MergedRows:
    """A table whose rows lie in runs: a `saved_tables.RowSource`."""

    def __init__(self, dim: int, directory: Path, gathered: int = GATHERED_BYTES) -> None:
        """`directory`: of this process alone; where runs, and whatever is made of them, lie."""
        self.dim, self.directory = dim, directory
        self.record = np.dtype([("key", "<i8"), ("order", "<u2"), ("weights", "<f4", (dim,))])
        self._gathered = gathered
        self._file: BinaryIO | None = None
        self._runs: list[_Run] = []

    def add_run(self, records: list[Any]) -> None:
        """Sort and write them. Raises StorageError, NoSpaceLeft where the disk is full."""
        found = _newest(np.concatenate(records))
        content = memoryview(found.view(np.uint8))
        with translate_errors("write rows into", str(self.directory)):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 - open as long as the rows are
                weakref.finalize(self, self._file.close)
            begin = self._file.seek(0, os.SEEK_END)
            self._file.write(content)
            self._file.flush()
        self._runs.append(_Run(begin, len(found), google_crc32c.value(content.tobytes())))

    def pieces(self) -> Iterator[Rows]:
        """All rows, the smallest keys first. Raises DataError for runs that are not as they were written."""
        for rows, _ in self.changes():
            if len(rows.keys):
                yield rows

    def changes(self) -> Iterator[Changes]:
        """The same with the keys that were removed."""
        if self._file is None:
            return
        most = max(1, self._gathered // (self.record.itemsize * len(self._runs)))
        where = f"what this process wrote into {self.directory}"
        left = [_RunReader(self._file, run, self.record, most, where) for run in self._runs]
        while left:
            for run in left:
                run.fill()
            # What is in no run yet comes behind all of these.
            last = min((run.last for run in left if not run.is_at_end), default=None)
            records = _newest(np.concatenate([run.take(last) for run in left]))
            left = [run for run in left if not run.is_over]
            is_there = records["order"] % 2 == 1
            there, removed = records[is_there], np.ascontiguousarray(records["key"][~is_there])
            yield Changes(Rows(np.ascontiguousarray(there["key"]), np.ascontiguousarray(there["weights"])), removed)


def merge_rows(
    url: str, directory: Path, within: str | None = None, names: Collection[str] | None = None,
    gathered: int = GATHERED_BYTES, after: str | None = None,
) -> dict[str, MergedRows]:  # fmt: skip
    """What `saved_tables.read_rows` reads, in files of `directory`; `names`: of these tables alone; `after`: a manifest
    that the one at `url` stands on, and only what became of its tables since.

    Raises NotFound, StorageError for a directory that takes no more, or DataError for damaged files.
    """
    manifests = chain(url, within)
    saved = manifests[-1][1].tables
    first = 0 if after is None else [path for path, _ in manifests].index(after) + 1
    tables = [MergedRows(table.dim, directory, gathered) for table in saved]
    wanted = [names is None or table.name in names for table in saved]
    gathering = _Gathering(tables, gathered)
    for place, (path, manifest) in enumerate(manifests[first:]):
        for entry in manifest.files:
            for block in file_blocks(path, manifest, entry):
                if wanted[block.number] and not block.is_of_filter:
                    gathering.add(block, saved[block.number], 2 * place)
    gathering.write()
    return {table.name: rows for table, rows, named in zip(saved, tables, wanted, strict=True) if named}


class _Run(NamedTuple):
    """Where it begins in its file, in bytes; how many records it has, and their checksum."""

    begin: int
    records: int
    crc32c: int


class _Gathering:
    """Records of all tables that wait to be written."""

    def __init__(self, tables: list[MergedRows], most: int) -> None:
        self._tables, self._most = tables, most
        self._waiting: list[list[Any]] = [[] for _ in tables]
        self._bytes = 0

    def add(self, block: SavedBlock, table: SavedTable, order: int) -> None:
        """The block's records; all that wait are written where they are too many, also in the middle of it."""
        rows, most = block.rows, max(1, self._most // self._tables[block.number].record.itemsize)
        for first in range(0, len(rows.removed), most):
            self._add(block.number, rows.removed[first : first + most], order)
        for first in range(0, len(rows.keys), most):
            part = slice(first, first + most)
            self._add(block.number, rows.keys[part], order + 1, rows.values[part, : table.dim])

    def _add(self, number: int, keys: Any, order: int, weights: Any = 0) -> None:
        """Records of these keys. A removed key takes as much as a row: a block of them grows to many times its size."""
        records = np.empty(len(keys), self._tables[number].record)
        records["key"], records["order"], records["weights"] = keys, order, weights
        self._waiting[number].append(records)
        self._bytes += records.nbytes
        if self._bytes >= self._most:
            self.write()

    def write(self) -> None:
        """A run of each table that has any."""
        for table, records in zip(self._tables, self._waiting, strict=True):
            if records:
                table.add_run(records)
                records.clear()
        self._bytes = 0


class _RunReader:
    """Reads a run from its beginning to its end, `most` records at a time."""

    def __init__(self, file: BinaryIO, run: _Run, record: Any, most: int, where: str) -> None:
        self._file, self._run, self._record, self._most, self._where = file, run, record, most, where
        self._read, self._checksum = 0, google_crc32c.Checksum()
        self._held = np.empty(0, record)

    @property
    def is_at_end(self) -> bool:
        """Whether all that is left of it is held."""
        return self._read == self._run.records

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it."""
        return self.is_at_end and len(self._held) == 0

    @property
    def last(self) -> int:
        """The largest key of those held."""
        return int(self._held["key"][-1])

    def fill(self) -> None:
        """Hold as many as may be. Raises DataError for a run that is not as it was written."""
        count = min(self._most - len(self._held), self._run.records - self._read)
        if count <= 0:
            return
        size = self._record.itemsize
        with translate_errors("read rows in", self._where):
            content = os.pread(self._file.fileno(), count * size, self._run.begin + self._read * size)
        self._checksum.update(content)
        self._read += count
        is_whole = len(content) == count * size
        if not is_whole or (self.is_at_end and int.from_bytes(self._checksum.digest()) != self._run.crc32c):
            raise DataError(f"{self._where} is damaged; it lies there only while this process runs, so run it again")
        self._held = np.concatenate([self._held, np.frombuffer(content, self._record)])

    def take(self, last: int | None) -> Any:
        """Those up to this key, which are no longer held; None: all."""
        count = len(self._held) if last is None else int(np.searchsorted(self._held["key"], last, "right"))
        taken, self._held = self._held[:count], self._held[count:]
        return taken


def _newest(records: Any) -> Any:
    """By ascending key, of each key the record that counts: of equal ones the last."""
    keys = np.ascontiguousarray(records["key"])
    order = np.lexsort((records["order"], keys))
    keys = keys[order]
    newest = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=newest[:-1])
    return records[order[newest]]

"""Saved tables as files, written without any server: whole ones and deltas."""

import os
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import numpy as np

from afo.formats import manifest_file
from afo.tables import row_block, saved_tables
from afo.tables.row_block import RowBlock
from afo.tables.saved_tables import RowsFile, SavedTable, TablesManifest

#: A block and the number of its table.
Numbered = tuple[int, RowBlock]


def block(rows: dict[int, float], dim: int, removed: Sequence[int] = ()) -> RowBlock:
    """Rows whose weights are all one value, with a slot each."""
    count = len(rows)
    weights = np.repeat(np.array(list(rows.values()), np.float32)[:, np.newaxis], dim, axis=1).reshape(count, dim)
    nothing = np.zeros(count, np.uint32)
    return RowBlock(
        np.array(removed, np.int64), np.array(list(rows), np.int64), nothing, nothing, np.hstack([weights, weights + 1])
    )


def save(
    directory: Path, tables: Sequence[SavedTable], files: Sequence[Sequence[Numbered]], base: Path | None = None
) -> str:
    """A checkpoint of these blocks by file; returns its manifest's URL. `base`: the directory that it stands on."""
    directory.mkdir(parents=True)
    entries = []
    for number, blocks in enumerate(files):
        encoded = [(table, row_block.encode(each)) for table, each in blocks]
        content = b"".join(row_block.head_of(table, block) + block for table, block in encoded)
        name = f"rows-{number:04d}-0.afo"
        (directory / name).write_bytes(content)
        entries.append(RowsFile(name, number, len(content), google_crc32c.value(content)))
    manifest = TablesManifest(
        version=saved_tables.FORMAT_VERSION,
        servers=max(1, len(files)),
        base=None if base is None else os.path.join(os.path.relpath(base, directory), saved_tables.MANIFEST),
        tables=tuple(tables),
        files=tuple(entries),
    )
    path = directory / saved_tables.MANIFEST
    path.write_bytes(manifest_file.encode(manifest))
    return str(path)

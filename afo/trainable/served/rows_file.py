"""File of a table's rows as afo's operations look them up; what is in it says afo/core/served_layout.h."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import tensorflow as tf

from afo.errors import DataError
from afo.job import ROW_TYPES, RowType
from afo.ops import library
from afo.tables.merged_rows import Changes, MergedRows
from afo.tables.saved_tables import RowSource
from afo.trainable.served.rows_header import rows_at
from afo.trainable.served.stored_rows import decode_rows, encode_rows, stored_type


class Parent(NamedTuple):
    """The table of another file, by the id of its header and its path from the directory of the changes."""

    id: int
    path: str


class ChangedRows(NamedTuple):
    """What became of the rows of a table since those that `parent` holds."""

    merged: MergedRows
    parent: Parent

    @property
    def dim(self) -> int:
        """Weights of a row."""
        return self.merged.dim


def write_rows(
    file: BinaryIO, rows: RowSource | ChangedRows, absent: float, kept: RowType, *, has_index: bool = True
) -> None:
    """`rows` as `stored_rows.stored_type` has them for `kept`, into an empty file. `has_index`: False where they are
    only read in the file, which takes no index.

    The header comes last: what was written in part is no table. In memory is a piece of the rows, and of the index
    64 MiB. Raises DataError where `kept` cannot hold the weights, or the disk does not keep what is written,
    Unsupported where the operations cannot run, and OSError.
    """
    operations = library.load()
    kind, checksum = stored_type(kept, rows.dim), google_crc32c.Checksum()
    parent = rows.parent if isinstance(rows, ChangedRows) else Parent(0, "")
    file.write(bytes(rows_at(parent.path)))
    count, removed = _write_changes(file, rows, kind, checksum)
    file.flush()
    # As a row of its own would be read.
    [of_absent] = decode_rows(*encode_rows(np.full((1, rows.dim), absent, np.float32), kind))
    try:
        error = operations.afo_seal_served_table(
            f"/proc/self/fd/{file.fileno()}", count, of_absent[0], int.from_bytes(checksum.digest()), removed,
            tf.constant(parent.id, tf.uint64), parent.path,
            type=ROW_TYPES.index(kind), dim=rows.dim, has_index=has_index,
        )  # fmt: skip
    except tf.errors.DataLossError as damaged:
        raise DataError(f"the disk does not keep what is written to it: {damaged.message}") from damaged
    if int(error):
        raise OSError(int(error), os.strerror(int(error)))


def _write_changes(
    file: BinaryIO, rows: RowSource | ChangedRows, kind: RowType, checksum: google_crc32c.Checksum
) -> tuple[int, int]:
    """Rows, and behind them keys that are removed; returns how many there are of both."""

    def write(content: bytes) -> None:
        checksum.update(content)
        file.write(content)

    count, removed = 0, [np.empty(0, np.int64)]
    for piece, gone in rows.merged.changes() if isinstance(rows, ChangedRows) else _all_there(rows):
        write(_pack_rows(piece.keys, piece.weights, kind))
        count += len(piece.keys)
        removed.append(gone)
    keys = np.concatenate(removed)
    write(keys.tobytes())
    return count, len(keys)


def _all_there(rows: RowSource) -> Iterator[Changes]:
    return (Changes(piece, np.empty(0, np.int64)) for piece in rows.pieces())


def _pack_rows(keys: Any, weights: Any, kind: RowType) -> bytes:
    values, scales = encode_rows(weights, kind)
    parts = [keys] if scales is None else [keys, scales]
    columns = [*(part[:, np.newaxis] for part in parts), values]
    return np.concatenate([np.ascontiguousarray(column).view(np.uint8) for column in columns], axis=1).tobytes()

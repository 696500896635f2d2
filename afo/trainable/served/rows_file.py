"""File of a table's rows as afo's operations look them up; what is in it says afo/core/served_layout.h."""

import os
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import tensorflow as tf

from afo.embedding.saved_tables import RowSource
from afo.errors import DataError
from afo.job import ROW_TYPES, RowType
from afo.ops import library
from afo.trainable.served.stored_rows import decode_rows, encode_rows, stored_type

#: Where the rows begin.
_HEADER_BYTES = 4096


def write_rows(file: BinaryIO, rows: RowSource, absent: float, kept: RowType, *, has_index: bool = True) -> None:
    """`rows` as `stored_rows.stored_type` has them for `kept`, into an empty file. `has_index`: False where they are
    only read in the file, which takes no index.

    The header comes last: what was written in part is no table. In memory is a piece of the rows, and of the index
    64 MiB. Raises DataError where `kept` cannot hold the weights, or the disk does not keep what is written, Unsupported
    where the operations cannot run, and OSError.
    """
    operations = library.load()
    kind, count, checksum = stored_type(kept, rows.dim), 0, google_crc32c.Checksum()
    file.write(bytes(_HEADER_BYTES))
    for piece in rows.pieces():
        packed = _pack_rows(piece.keys, piece.weights, kind)
        checksum.update(packed)
        file.write(packed)
        count += len(piece.keys)
    file.flush()
    # As a row of its own would be read.
    [of_absent] = decode_rows(*encode_rows(np.full((1, rows.dim), absent, np.float32), kind))
    try:
        error = operations.afo_seal_served_table(
            f"/proc/self/fd/{file.fileno()}", count, of_absent[0], int.from_bytes(checksum.digest()),
            type=ROW_TYPES.index(kind), dim=rows.dim, has_index=has_index,
        )  # fmt: skip
    except tf.errors.DataLossError as damaged:
        raise DataError(f"the disk does not keep what is written to it: {damaged.message}") from damaged
    if int(error):
        raise OSError(int(error), os.strerror(int(error)))


def _pack_rows(keys: Any, weights: Any, kind: RowType) -> bytes:
    values, scales = encode_rows(weights, kind)
    parts = [keys] if scales is None else [keys, scales]
    columns = [*(part[:, np.newaxis] for part in parts), values]
    return np.concatenate([np.ascontiguousarray(column).view(np.uint8) for column in columns], axis=1).tobytes()

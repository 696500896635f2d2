"""File of a table's rows as afo's operations look them up; what is in it says afo/core/served_table.h."""

import struct
from typing import Any, BinaryIO

import google_crc32c
import numpy as np

from afo.embedding.saved_tables import RowSource
from afo.job import ROW_TYPES, RowType
from afo.trainable.served.stored_rows import decode_rows, encode_rows, stored_type

_MAGIC = b"AFOROWS1"
_HEADER_BYTES = 32


def write_rows(file: BinaryIO, rows: RowSource, absent: float, kept: RowType) -> None:
    """`rows` as `stored_rows.stored_type` has them for `kept`. Raises DataError where that cannot hold them.

    The header comes last: what was written in part is no table.
    """
    kind, count, checksum = stored_type(kept, rows.dim), 0, google_crc32c.Checksum()
    file.write(bytes(_HEADER_BYTES))
    for piece in rows.pieces():
        packed = _pack_rows(piece.keys, piece.weights, kind)
        checksum.update(packed)
        file.write(packed)
        count += len(piece.keys)
    file.write(checksum.digest()[::-1])
    # As a row of its own would be read.
    [of_absent] = decode_rows(*encode_rows(np.full((1, rows.dim), absent, np.float32), kind))
    header = _MAGIC + struct.pack("<IIQf", ROW_TYPES.index(kind), rows.dim, count, of_absent[0])
    file.seek(0)
    file.write(header + struct.pack("<I", google_crc32c.value(header)))
    file.flush()


def _pack_rows(keys: Any, weights: Any, kind: RowType) -> bytes:
    values, scales = encode_rows(weights, kind)
    parts = [keys] if scales is None else [keys, scales]
    columns = [*(part[:, np.newaxis] for part in parts), values]
    return np.concatenate([np.ascontiguousarray(column).view(np.uint8) for column in columns], axis=1).tobytes()

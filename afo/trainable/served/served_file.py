"""The file of a hash table that a served model reads: afo/core/served_table.h says what is in it."""

import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from afo.embedding.saved_tables import Rows
from afo.job import ROW_TYPES, RowType
from afo.trainable.served.stored_rows import restored, stored, stored_type

_MAGIC = b"AFOROWS1"
#: Rows that are made ready at a time.
_PIECE = 1 << 18


def write(path: Path, rows: Rows, absent: float, kept: RowType) -> None:
    """`rows` as `stored_rows.stored_type` has them for `kept`. Raises DataError where that cannot hold them."""
    dim = rows.weights.shape[1]
    kind = stored_type(kept, dim)
    # As a row of its own would be read.
    [of_absent] = restored(*stored(np.full((1, dim), absent, np.float32), kind))
    header = _MAGIC + struct.pack("<IIQf", ROW_TYPES.index(kind), dim, len(rows.keys), of_absent[0])
    checksum = google_crc32c.Checksum()
    with path.open("wb") as file:
        file.write(header + struct.pack("<I", google_crc32c.value(header)))
        for first in range(0, len(rows.keys), _PIECE):
            piece = _packed(rows.keys[first : first + _PIECE], rows.weights[first : first + _PIECE], kind)
            checksum.update(piece)
            file.write(piece)
        file.write(checksum.digest()[::-1])


def _packed(keys: Any, weights: Any, kind: RowType) -> bytes:
    values, scales = stored(weights, kind)
    parts = [keys] if scales is None else [keys, scales]
    columns = [*(part[:, np.newaxis] for part in parts), values]
    return np.concatenate([np.ascontiguousarray(each).view(np.uint8) for each in columns], axis=1).tobytes()

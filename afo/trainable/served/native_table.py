"""A hash table of a SavedModel that afo's operations look up: read from the model's assets when it is loaded.

What is in its file says afo/core/served_table.h.
"""

import itertools
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import tensorflow as tf

from afo.embedding.saved_tables import Rows
from afo.job import ROW_TYPES, RowType
from afo.ops import library
from afo.trainable.served.stored_rows import decode_rows, encode_rows, stored_type

#: Of all tables of this process: a name of its own for each table and each file.
_numbers = itertools.count()
_MAGIC = b"AFOROWS1"
#: Rows that are made ready at a time.
_PIECE = 1 << 18


class NativeTable(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Answers as a `FrozenTable` of the same rows does, to the bit. Who serves it loads the operations first."""

    def __init__(self, rows: Rows, absent: float, kept: RowType, directory: Path) -> None:
        """Its file is in `directory` until the model is saved.

        Raises Unsupported where the operations cannot run, DataError where `kept` cannot hold the weights.
        """
        super().__init__(name="table")
        library.load()
        self._dim, self._absent, self._kept = rows.weights.shape[1], absent, kept
        directory.mkdir(parents=True, exist_ok=True)
        number = next(_numbers)
        self._file = directory / f"table-{number}.rows"
        self._write(rows)
        # Its path is another one where the model is loaded; TensorFlow sees to it for what hangs at a module.
        self.asset = tf.saved_model.Asset(str(self._file))
        self.resource = _FromFile(self.asset, f"afo/served/{number}")

    def load(self, rows: Rows) -> None:
        """Take other rows, of the same width. Raises DataError as at first."""
        self._write(rows)
        self.resource.read()

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""
        return library.load().afo_lookup_served(self.resource.resource_handle, keys, dim=self._dim)

    def _write(self, rows: Rows) -> None:
        write_file(self._file, rows, self._absent, self._kept)


class _FromFile(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc]  # TensorFlow is untyped
    """The native table. TensorFlow saves what the three methods do, and does it again where the model is loaded."""

    def __init__(self, asset: Any, name: str) -> None:
        super().__init__(device="CPU")
        self._asset, self._name = asset, name
        self.read()

    def read(self) -> None:
        """All of the file, as it is now."""
        self._initialize()

    def _create_resource(self) -> Any:
        return library.load().afo_served_table(shared_name=self._name)

    def _initialize(self) -> None:
        library.load().afo_load_served_table(self.resource_handle, self._asset.asset_path)

    def _destroy_resource(self) -> None:
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle, ignore_lookup_error=True)


def write_file(path: Path, rows: Rows, absent: float, kept: RowType) -> None:
    """`rows` as `stored_rows.stored_type` has them for `kept`. Raises DataError where that cannot hold them."""
    dim = rows.weights.shape[1]
    kind = stored_type(kept, dim)
    # As a row of its own would be read.
    [of_absent] = decode_rows(*encode_rows(np.full((1, dim), absent, np.float32), kind))
    header = _MAGIC + struct.pack("<IIQf", ROW_TYPES.index(kind), dim, len(rows.keys), of_absent[0])
    checksum = google_crc32c.Checksum()
    with path.open("wb") as file:
        file.write(header + struct.pack("<I", google_crc32c.value(header)))
        for first in range(0, len(rows.keys), _PIECE):
            piece = _pack_rows(rows.keys[first : first + _PIECE], rows.weights[first : first + _PIECE], kind)
            checksum.update(piece)
            file.write(piece)
        file.write(checksum.digest()[::-1])


def _pack_rows(keys: Any, weights: Any, kind: RowType) -> bytes:
    values, scales = encode_rows(weights, kind)
    parts = [keys] if scales is None else [keys, scales]
    columns = [*(part[:, np.newaxis] for part in parts), values]
    return np.concatenate([np.ascontiguousarray(column).view(np.uint8) for column in columns], axis=1).tobytes()

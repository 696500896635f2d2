"""A hash table whose rows stay in a file of this process, where afo's operations look them up: for evaluation."""

import itertools
import tempfile
from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf

from afo.errors import DataError
from afo.job import RowType
from afo.ops import library
from afo.storage.local import translate_errors
from afo.tables.merged_rows import MergedRows
from afo.trainable.served.rows_file import write_rows

#: Of all tables of this process.
_numbers = itertools.count()


class FileTable(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Answers as a `FrozenTable` of the same rows does, to the bit. In memory is less than a hundredth of the rows.

    They are read, not mapped: pages of a mapped file count as memory that a process uses, for YARN as for `ps`, until
    the kernel wants them back. The file has no name, so its room is free when the table goes, however the process ends.
    """

    def __init__(self, rows: MergedRows, absent: float, kept: RowType) -> None:
        """Raises Unsupported where the operations cannot run, DataError where `kept` cannot hold the weights, and
        StorageError where the directory takes no more."""
        super().__init__(name="table")
        self._dim, self._absent, self._kept = rows.dim, absent, kept
        self._handle = library.load().afo_served_table(shared_name=f"afo/in-file/{next(_numbers)}")
        self.load(rows)

    def __del__(self) -> None:
        if tf is not None and hasattr(self, "_handle"):  # else Python ends, or it was never made
            tf.raw_ops.DestroyResourceOp(resource=self._handle, ignore_lookup_error=True)

    def load(self, rows: MergedRows) -> None:
        """Take other rows, of the same width. Raises DataError as at first, and what it held stays."""
        where = str(rows.directory)
        with translate_errors("write rows into", where), tempfile.TemporaryFile(dir=rows.directory) as file:
            write_rows(file, rows, self._absent, self._kept, has_index=False)
            self._open(f"/proc/self/fd/{file.fileno()}", where)

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""
        return library.load().afo_lookup_served(self._handle, keys, dim=self._dim)

    @classmethod
    def lookup_all(cls, tables: Sequence[Self], keys: Sequence[Any]) -> Any:
        """Of tables of one width, int64 [B, values] of each → float32 [B, values of all, dim]."""
        return tf.concat([table.lookup(own) for table, own in zip(tables, keys, strict=True)], axis=1)

    def _open(self, path: str, where: str) -> None:
        try:
            library.load().afo_load_served_table(self._handle, path, in_file=True)
        except tf.errors.DataLossError as error:
            raise DataError(
                f"what this process wrote into {where} is damaged; run it again: {error.message}"
            ) from error

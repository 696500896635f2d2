"""Form of a checkpoint's tables in a model of one process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from afo.job import RowType
from afo.tables.merged_rows import MergedRows
from afo.tables.saved_tables import Rows
from afo.trainable.served.frozen_table import FrozenTable
from afo.trainable.served.stored_rows import StoredRows


class HashTable(Protocol):
    """A hash table that is only read. A `tf.Module`, so that it can be saved."""

    def load(self, rows: Any) -> None:
        """Take other rows of the same width: in memory, or merged, as those were that it was made of."""

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""

    @classmethod
    def lookup_all(cls, tables: Sequence[Any], keys: Sequence[Any]) -> Any:
        """Of tables of one width and class, int64 [B, values] of each → float32 [B, values of all, dim]."""


class TableForm(NamedTuple):
    """Makes tables. `native_in`: where the files of native ones are written; None: hash tables are frozen.

    `only_saved`: no key is looked up in this process, so that tables of merged rows need not be able to.
    `stays_mapped`: native ones are not copied into the memory of a process that serves them.
    """

    rows: RowType = "float32"
    native_in: Path | None = None
    only_saved: bool = False
    stays_mapped: bool = False

    def make_hash_table(self, rows: Rows | MergedRows, absent: float = 0.0) -> HashTable:
        """`absent`: the weights of a key without a row. Merged rows do not come into memory.

        Raises Unsupported where the operations cannot run, StorageError where there is no room for files.
        """
        # The operations need not be there where they are not used.
        if self.native_in is not None:
            from afo.trainable.served.native_table import NativeTable

            return NativeTable(
                rows, absent, self.rows, self.native_in, looks_up=not self.only_saved, stays_mapped=self.stays_mapped
            )
        if isinstance(rows, Rows) or self.only_saved:
            return FrozenTable(rows, absent, self.rows)
        from afo.trainable.served.file_table import FileTable

        return FileTable(rows, absent, self.rows)

    def dense(self, weights: Any) -> StoredRows:
        """A table whose keys are the numbers of its rows: float32 [n, dim]."""
        return StoredRows(weights, self.rows)


#: As they are in training.
TRAINED = TableForm()

"""Form of a checkpoint's tables in a model of one process."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from afo.embedding.saved_tables import Rows
from afo.job import RowType
from afo.trainable.served.frozen_table import FrozenTable
from afo.trainable.served.stored_rows import StoredRows


class HashTable(Protocol):
    """A hash table that is only read. A `tf.Module`, so that it can be saved."""

    def load(self, rows: Rows) -> None:
        """Take other rows, of the same width."""

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""


class TableForm(NamedTuple):
    """Makes tables. `native_in`: where the files of native ones are written; None: hash tables are frozen."""

    rows: RowType = "float32"
    native_in: Path | None = None

    def make_hash_table(self, rows: Rows, absent: float = 0.0) -> HashTable:
        """`absent`: the weights of a key without a row. Raises Unsupported where the operations cannot run."""
        if self.native_in is None:
            return FrozenTable(rows, absent, self.rows)
        # The operations need not be there otherwise.
        from afo.trainable.served.native_table import NativeTable

        return NativeTable(rows, absent, self.rows, self.native_in)

    def dense(self, weights: Any) -> StoredRows:
        """A table whose keys are the numbers of its rows: float32 [n, dim]."""
        return StoredRows(weights, self.rows)


#: As they are in training.
TRAINED = TableForm()

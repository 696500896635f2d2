"""A hash table of a SavedModel that afo's operations look up: read from the model's assets when it is loaded."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from afo.job import RowType
from afo.ops import library
from afo.storage.local import translate_errors
from afo.tables.saved_tables import RowSource
from afo.trainable.served.rows_file import ChangedRows, write_rows

#: Of the names of tables' files.
SUFFIX = ".rows"
#: Of all tables of this process: a name of its own for each.
_numbers = itertools.count()


def file_name(place: int) -> str:
    """Of a model's table by its place among them, in the directory of its assets."""
    return f"table-{place}{SUFFIX}"


class NativeTable(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Answers as a `FrozenTable` of the same rows does, to the bit. Who serves it loads the operations first."""

    def __init__(
        self, rows: RowSource | ChangedRows, absent: float, kept: RowType, directory: Path, *, looks_up: bool = True,
        stays_mapped: bool = False,
    ) -> None:  # fmt: skip
        """Its file is in `directory`, which has the model's tables alone, until the model is saved. `looks_up`: False
        if it is only saved, and not read. `stays_mapped`: where it is served it stays in its file, whose pages
        processes share, and is not copied.

        Raises Unsupported where the operations cannot run, DataError where `kept` cannot hold the weights, StorageError
        where the directory takes no more.
        """
        super().__init__(name="table")
        library.load()
        self._dim, self._absent, self._kept = rows.dim, absent, kept
        directory.mkdir(parents=True, exist_ok=True)
        number = next(_numbers)
        # By its place among the model's tables, as in every other export of the model.
        self._file = directory / file_name(len(list(directory.iterdir())))
        self._write(rows)
        # Its path is another one where the model is loaded; TensorFlow sees to it for what hangs at a module.
        self.asset = tf.saved_model.Asset(str(self._file))
        self.resource = _FromFile(self.asset, f"afo/served/{number}", stays_mapped)
        if looks_up:
            self.resource.read()

    def load(self, rows: RowSource | ChangedRows) -> None:
        """Take other rows, of the same width. Raises DataError as at first."""
        self._write(rows)
        self.resource.read()

    def lookup(self, keys: Any) -> Any:
        """int64 [...] → float32 [..., dim]."""
        return library.load().afo_lookup_served(self.resource.resource_handle, keys, dim=self._dim)

    @classmethod
    def lookup_all(cls, tables: Sequence[Self], keys: Sequence[Any]) -> Any:
        """Of tables of one width, int64 [B, values] of each → float32 [B, values of all, dim], in one operation."""
        handles = [table.resource.resource_handle for table in tables]
        return library.load().afo_lookup_served_tables(handles, list(keys), dim=tables[0]._dim)

    def _write(self, rows: RowSource | ChangedRows) -> None:
        # Another file: the one before may be mapped.
        written = self._file.with_suffix(".new")
        with translate_errors("write", str(self._file)):
            with written.open("wb") as file:
                write_rows(file, rows, self._absent, self._kept)
            written.replace(self._file)


class _FromFile(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc]  # TensorFlow is untyped
    """The native table. TensorFlow saves what the three methods do, and does it again where the model is loaded."""

    def __init__(self, asset: Any, name: str, stays_mapped: bool) -> None:
        super().__init__(device="CPU")
        self._asset, self._name, self._stays_mapped = asset, name, stays_mapped
        # Made here, and not in the graph that first asks for it.
        _ = self.resource_handle

    def read(self) -> None:
        """All of the file, as it is now."""
        self._initialize()

    def _create_resource(self) -> Any:
        return library.load().afo_served_table(shared_name=self._name)

    def _initialize(self) -> None:
        library.load().afo_load_served_table(
            self.resource_handle, self._asset.asset_path, stays_mapped=self._stays_mapped
        )

    def _destroy_resource(self) -> None:
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle, ignore_lookup_error=True)

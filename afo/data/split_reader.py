"""One split (a file) as blocks of records in an order that is fixed by seed, epoch and row."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.bad_records import BadRecords
from afo.data.formats import is_parquet
from afo.data.schema import Schema
from afo.data.tfrecord import compression_of, read_records
from afo.errors import DataError
from afo.job import Data

_COMPRESSION = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}
_READ_BUFFER = 1 << 20


class Lease(NamedTuple):
    """A file to read: its row among the training files, the epoch, and how many of its records are applied already."""

    row: int
    epoch: int
    url: str
    skip: int = 0


class SplitReader:
    """Blocks of records of a lease's file; the records that were applied already are left out.

    `path` is where the file lies locally. The order depends on seed, epoch and row alone, so "the first n records of
    this epoch" means the same in every process. A Parquet file is read by `schema`, a TFRecord file as it is; with
    `labelled` false it need hold neither label nor weight, for a caller that takes features alone.
    """

    def __init__(
        self, lease: Lease, path: Path, data: Data, block: int, schema: Schema, bad: BadRecords | None = None,
        labelled: bool = True,
    ) -> None:  # fmt: skip
        self.lease = lease
        self._path = str(path)
        self._data = data
        self._block = block
        self._given = lease.skip
        self._bad = BadRecords(data.max_bad_records) if bad is None else bad
        self._is_whole = True
        self._seed = order_seed(data.shuffle.seed, lease.epoch, lease.row)
        self._blocks: Any
        if is_parquet(data.format, lease.url):
            from afo.data.columns import ColumnFile, column_blocks

            file = ColumnFile(path, lease.url, labelled)
            self._blocks = column_blocks(file, schema, data, self._refuse, self._seed, lease.skip, block)
        else:
            known = compression_of(self._path) if data.compression == "auto" else data.compression
            self._blocks = self._arranged(tf.data.TFRecordDataset(self._path, _COMPRESSION[known], _READ_BUFFER))

    def next_block(self) -> Any | None:
        """Tensors as the parser takes them: strings [n] of TFRecord; None at the end.

        Raises DataError with file and offset for a damaged record, unless `data.max_bad_records` allows to skip some.
        """
        try:
            block = next(self._blocks, None)
        except tf.errors.OpError as error:
            self._go_on_after(error)
            return self.next_block()
        self._given += 0 if block is None else int(tf.nest.flatten(block)[0].shape[0])
        return block

    def _arranged(self, records: Any) -> Any:
        """Blocks of a dataset of all good records, in this split's order, without those that were given already."""
        data = self._data
        if data.shuffle.buffer > 1:
            records = records.shuffle(data.shuffle.buffer, self._seed, reshuffle_each_iteration=False)
        return iter(records.skip(self._given).batch(self._block).prefetch(2).with_options(_options()))

    def _go_on_after(self, error: tf.errors.OpError) -> None:
        """Read on with our own slower reader, which leaves damaged records out, or raise what is wrong.

        The order stays the same: what was given so far came of the records before the damaged one.
        """
        skipped: list[DataError] | None = [] if self._bad.may_be and self._is_whole else None
        try:
            for _ in read_records(self._path, self._data.compression, skipped):
                pass
        except DataError as found:
            raise self._renamed(found) from error
        if not skipped:
            raise DataError(f"{self.lease.url}: TensorFlow cannot read it as TFRecord: {error.message}") from error
        for damaged in skipped:
            self._refuse(str(self._renamed(damaged)))
        self._is_whole = False
        self._blocks = self._arranged(
            tf.data.Dataset.from_generator(
                lambda: read_records(self._path, self._data.compression, []),
                output_signature=tf.TensorSpec([], tf.string),
            )
        )

    def _refuse(self, what: str) -> None:
        self._bad.add(self.lease, what, unread=True)

    def _renamed(self, error: DataError) -> DataError:
        """The file by the name the user knows."""
        return DataError(str(error).replace(self._path, self.lease.url))


def order_seed(seed: int, epoch: int, row: int) -> int:
    """Seed of a split's order, 31 bits."""
    digest = hashlib.blake2b(f"{seed}/{epoch}/{row}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1


def _options() -> Any:
    """No tuning and no rewriting: it takes longer than a short file, and an order must not depend on it."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.experimental_optimization.apply_default_optimizations = False
    return options

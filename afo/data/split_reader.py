"""One split (a file) as blocks of records in an order that is fixed by seed, epoch and row."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.tfrecord import compression_of, count_records
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
    """Blocks of serialized records of a lease's file; the records that were applied already are left out.

    `path` is where the file lies locally. The order depends on seed, epoch and row alone, so "the first n records of
    this epoch" means the same in every process.
    """

    def __init__(self, lease: Lease, path: Path, data: Data, block: int) -> None:
        self.lease = lease
        self._path = path
        self._compression = data.compression
        self._blocks = iter(self._dataset(data, block))

    def next_block(self) -> Any | None:
        """String tensor [n], or None at the end. Raises DataError with file and offset for a damaged record."""
        try:
            return next(self._blocks, None)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
            raise self._damage(error) from error

    def _dataset(self, data: Data, block: int) -> Any:
        known = compression_of(str(self._path)) if data.compression == "auto" else data.compression
        records = tf.data.TFRecordDataset(str(self._path), _COMPRESSION[known], _READ_BUFFER)
        if data.shuffle.buffer > 1:
            seed = order_seed(data.shuffle.seed, self.lease.epoch, self.lease.row)
            records = records.shuffle(data.shuffle.buffer, seed, reshuffle_each_iteration=False)
        return records.skip(self.lease.skip).batch(block).prefetch(2).with_options(_options())

    def _damage(self, error: tf.errors.OpError) -> DataError:
        """Our own reader knows the offset, which TensorFlow's does not tell for compressed files."""
        try:
            count_records(str(self._path), self._compression)
        except DataError as found:
            return DataError(str(found).replace(str(self._path), self.lease.url))
        return DataError(f"{self.lease.url}: TensorFlow cannot read it as TFRecord: {error.message}")


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

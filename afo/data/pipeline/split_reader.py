"""Reader of a split (a file or a part of it): blocks of records in an order fixed by seed, epoch and number.

What was applied already need not be read again where the file has an index: `from_nearer_by`.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afo import storage
from afo.data.io.bad_records import BadRecords
from afo.data.io.formats import is_parquet
from afo.data.io.record_blocks import Order, RecordSource, record_blocks
from afo.data.io.record_index import RecordIndex, read_index
from afo.data.schema import Schema
from afo.errors import DataError, NotFound
from afo.job import Data
from afo.storage.url import ByteRange


class Lease(NamedTuple):
    """A split to read: its number among all, the epoch, its file, and how many of its records are applied already."""

    split: int
    epoch: int
    url: str
    skip: int = 0
    #: None: the file is the split.
    part: ByteRange | None = None


class SplitReader:
    """Blocks of records of a lease's split; the records that were applied already are left out.

    `path` is where the file lies locally. The order depends on seed, epoch and number alone, so "the first n records of
    this epoch" means the same in every process. A Parquet file is read by `schema`, a TFRecord file as it is; with
    `labelled` false it need hold neither label nor weight, for a caller that takes features alone.
    """

    def __init__(
        self, lease: Lease, path: Path, data: Data, block: int, schema: Schema, bad: BadRecords | None = None,
        labelled: bool = True,
    ) -> None:  # fmt: skip
        self.lease = lease
        self._path = str(path)
        self._bad = BadRecords(data.max_bad_records) if bad is None else bad
        seed = order_seed(data.shuffle.seed, lease.epoch, lease.split)
        self._blocks: Iterator[Any]
        if is_parquet(data.format, lease.url):
            from afo.data.io.columns import ColumnFile, column_blocks

            file = ColumnFile(path, lease.url, labelled)
            self._blocks = column_blocks(file, schema, data, self._refuse, seed, lease.skip, block)
        else:
            source = RecordSource(self._path, data, self._refuse if self._bad.may_be else None, lease.part)
            self._blocks = record_blocks(source, Order(seed, data.shuffle.buffer, lease.skip, block))

    def next_block(self) -> Any | None:
        """As the parser takes them: a tensor of strings [n] of TFRecord, arrays of Parquet; None at the end.

        Raises DataError with file and offset for a damaged record, unless `data.max_bad_records` allows to skip some.
        """
        try:
            return next(self._blocks, None)
        except DataError as error:
            raise DataError(self._name_by_url(str(error))) from error

    def _refuse(self, what: str) -> None:
        self._bad.add(self.lease, self._name_by_url(what), unread=True)

    def _name_by_url(self, words: str) -> str:
        """The file by the name the user knows."""
        return words.replace(self._path, self.lease.url)


def order_seed(seed: int, epoch: int, split: int) -> int:
    """Seed of a split's order, 31 bits."""
    digest = hashlib.blake2b(f"{seed}/{epoch}/{split}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1


def from_nearer_by(lease: Lease, data: Data) -> Lease:
    """The same records of a lease, from the last place in the file's index that is not behind the first of them.

    A mixed order is drawn from the split's beginning on, and bad records are counted from there, so a job with either
    reads all of it; so does one whose file has no index that fits.
    """
    if not lease.skip or data.shuffle.buffer > 1 or data.max_bad_records or is_parquet(data.format, lease.url):
        return lease
    try:
        index = read_index(lease.url, storage.info(lease.url).size)
    except (NotFound, DataError):
        return lease
    return _skip_by_index(lease, index)


def _skip_by_index(lease: Lease, index: RecordIndex) -> Lease:
    begin, end = lease.part or ByteRange(0, index.size)
    first = int(np.searchsorted(index.offsets, begin))
    last = int(np.searchsorted(index.offsets, end))
    if first == last or index.offsets[first] != begin:
        return lease  # an index that was written since, with other places
    numbers = index.numbers[first:last] - index.numbers[first]
    nearest = int(np.searchsorted(numbers, lease.skip, side="right")) - 1
    part = ByteRange(int(index.offsets[first + nearest]), end)
    return lease._replace(skip=lease.skip - int(numbers[nearest]), part=part)

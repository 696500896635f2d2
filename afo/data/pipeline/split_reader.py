"""Reader of a split (a file or a part of it): blocks of records in an order fixed by seed, epoch and number."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from afo.data.io.bad_records import BadRecords
from afo.data.io.formats import is_parquet
from afo.data.io.record_blocks import Order, RecordSource, record_blocks
from afo.data.schema import Schema
from afo.errors import DataError
from afo.formats.byte_range import ByteRange
from afo.job import Data


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
            raise DataError(self._renamed(str(error))) from error

    def _refuse(self, what: str) -> None:
        self._bad.add(self.lease, self._renamed(what), unread=True)

    def _renamed(self, words: str) -> str:
        """The file by the name the user knows."""
        return words.replace(self._path, self.lease.url)


def order_seed(seed: int, epoch: int, split: int) -> int:
    """Seed of a split's order, 31 bits."""
    digest = hashlib.blake2b(f"{seed}/{epoch}/{split}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1

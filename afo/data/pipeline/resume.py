"""Resumption within a split: where a reader may begin without reading all that was applied already."""

import numpy as np

from afo import storage
from afo.data.io.formats import is_parquet
from afo.data.io.record_index import RecordIndex, read_index
from afo.data.pipeline.split_reader import Lease
from afo.errors import DataError, NotFound
from afo.formats.byte_range import ByteRange
from afo.job import Data


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
    return _moved(lease, index)


def _moved(lease: Lease, index: RecordIndex) -> Lease:
    begin, end = lease.part or ByteRange(0, index.size)
    first = int(np.searchsorted(index.offsets, begin))
    last = int(np.searchsorted(index.offsets, end))
    if first == last or index.offsets[first] != begin:
        return lease  # an index that was written since, with other places
    numbers = index.numbers[first:last] - index.numbers[first]
    nearest = int(np.searchsorted(numbers, lease.skip, side="right")) - 1
    part = ByteRange(int(index.offsets[first + nearest]), end)
    return lease._replace(skip=lease.skip - int(numbers[nearest]), part=part)

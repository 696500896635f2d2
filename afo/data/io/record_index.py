"""The index of a TFRecord file: where some of its records begin, so that readers can begin there.

It lies beside its file as a hidden file, `.part-0.index` beside `part-0`, which neither afo nor Hadoop takes for data:

    index := "afoindx1" | size of the file u64 | its records u64 | entries | CRC-32C of all before u32
    entry := offset u64 | number of the record that begins there, from 0, u64

all little-endian. The first entry is the file's first record, and each further one the first that begins SPACING bytes
or more behind the one before.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from afo import storage
from afo.errors import DataError
from afo.storage.url import ByteRange

#: Bytes between two entries at least: 16 KiB of index for 1 GiB of records.
SPACING = 1 << 20
#: An index above this, of more than 4 TiB of records, is not read.
MOST_BYTES = 1 << 26
#: A record's length and checksums: no record takes less.
LEAST_RECORD = 16

_MAGIC = b"afoindx1"
_HEAD = struct.Struct("<8sQQ")
_SUM = struct.Struct("<I")
_ENTRY = np.dtype("<u8")


class RecordIndex(NamedTuple):
    """Offsets and numbers, int64 [n] each, of records of a file of `size` bytes and `records` records."""

    size: int
    records: int
    offsets: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def encode(self) -> bytes:
        """As it lies in a file."""
        entries = np.stack([self.offsets, self.numbers], axis=1).astype(_ENTRY).tobytes()
        content = _HEAD.pack(_MAGIC, self.size, self.records) + entries
        return content + _SUM.pack(google_crc32c.value(content))

    def parts(self, most: int) -> tuple[ByteRange, ...]:
        """The file in parts of about equal length, about `most` bytes or less: all of its records, each once."""
        count = max(1, -(-self.size // most))
        number = np.arange(1, count, dtype=np.int64)
        length, rest = divmod(self.size, count)
        aims = number * length + number * rest // count  # number * size might not fit
        after = np.minimum(np.searchsorted(self.offsets, aims), len(self.offsets) - 1)
        before = np.maximum(after - 1, 0)
        is_nearer = aims - self.offsets[before] < self.offsets[after] - aims
        nearest = np.unique(self.offsets[np.where(is_nearer, before, after)])
        ends = [0, *(int(offset) for offset in nearest if offset > 0), self.size]
        return tuple(ByteRange(*bounds) for bounds in pairwise(ends))


class IndexBuilder:
    """Takes the records of a file in their order."""

    def __init__(self, spacing: int = SPACING) -> None:
        self._spacing = spacing
        self._size = 0
        self._records = 0
        self._entries: list[tuple[int, int]] = []

    def add(self, length: int) -> None:
        """The next record takes `length` bytes of the file, its checksums included."""
        if not self._entries or self._size - self._entries[-1][0] >= self._spacing:
            self._entries.append((self._size, self._records))
        self._size += length
        self._records += 1

    def build(self) -> RecordIndex:
        """The index of these records."""
        entries = np.array(self._entries, np.int64).reshape(-1, 2)
        return RecordIndex(self._size, self._records, entries[:, 0], entries[:, 1])


def index_url(url: str) -> str:
    """Where the index of a file lies."""
    return storage.join(storage.parent(url), f".{storage.name(url)}.index")


def write_index(url: str, index: RecordIndex) -> None:
    """Puts the index beside its file, atomically."""
    storage.write_bytes(index_url(url), index.encode())


def read_index(url: str, size: int) -> RecordIndex:
    """The index of the file `url`, which has `size` bytes now.

    Raises NotFound where there is none, DataError for one that is damaged or that was made for a file of another size.
    """
    name = index_url(url)
    with storage.open_input(name) as file:
        index = parse_index(file.read(MOST_BYTES + 1), name)
    if index.size != size:
        raise DataError(
            f"{name} was made for a file of {index.size:,} bytes, and {url} has {size:,}: {how_to_index(url)}"
        )
    return index


def how_to_index(url: str) -> str:
    """What to do where an index is missing or wrong."""
    return f"write it with `afo data index {url}`"


def parse_index(data: bytes, name: str) -> RecordIndex:
    """An index that errors call `name`. Raises DataError, saying what is wrong with it."""
    wrong = _wrong_frame(data)
    if not wrong:
        _, size, records = _HEAD.unpack_from(data)
        entries = np.frombuffer(data[_HEAD.size : -_SUM.size], _ENTRY).reshape(-1, 2)
        wrong = _wrong_entries(entries, size, records)
    if wrong:
        raise DataError(f"{name} is no index of a TFRecord file: {wrong}; write it again with `afo data index`")
    offsets, numbers = entries.astype(np.int64).T
    return RecordIndex(size, records, offsets, numbers)


def _wrong_frame(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        return f"it has more than {MOST_BYTES:,} bytes"
    entries = len(data) - _HEAD.size - _SUM.size
    if entries < 0 or entries % (2 * _ENTRY.itemsize):
        return f"it is cut off after {len(data):,} bytes"
    if not data.startswith(_MAGIC):
        return f"it begins with {data[: len(_MAGIC)]!r} instead of {_MAGIC!r}"
    if _SUM.unpack(data[-_SUM.size :])[0] != google_crc32c.value(data[: -_SUM.size]):
        return "its checksum is wrong"
    return ""


def _wrong_entries(entries: NDArray[np.uint64], size: int, records: int) -> str:
    """`entries` [n, 2]; numbers that whoever signs them can choose as he likes."""
    if max(size, records) >= 1 << 62 or (entries >= 1 << 62).any():
        return f"it speaks of a file of {size} bytes and {records} records, or of places in it, beyond all bounds"
    if bool(records) != bool(len(entries)) or bool(records) != bool(size):
        return f"it has {len(entries)} places of {records} records in {size} bytes"
    if records and entries[0].any():
        return f"its first place is record {entries[0][1]} at offset {entries[0][0]}"
    places = np.concatenate([entries.astype(np.int64), [[size, records]]])
    steps = np.diff(places, axis=0)
    wrong = (steps[:, 1] < 1) | (steps[:, 0] // LEAST_RECORD < steps[:, 1])
    if wrong.any():
        (offset, number), (next_offset, next_number) = places[np.argmax(wrong) :][:2]
        return f"record {number} at offset {offset} is followed by record {next_number} at {next_offset}"
    return ""

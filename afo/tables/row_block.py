"""Blocks of rows as bytes, and as numpy arrays; the layout is that of afo/core/snapshot.h.

file  := (table u32, length u64, block)*        little-endian
"""

import io
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from afo.errors import DataError

_RECORD = struct.Struct("<IQ")
#: A longer record is damage.
_MOST_BYTES = 1 << 31
#: Bytes that are read or summed up at a time: a block is rarely longer.
_PIECE_BYTES = 16 << 20
_MAGIC = 0x316F6661
#: Of what a filter knows: keys that are not admitted yet, cells of a counting Bloom filter.
_FILTER_MAGICS = (0x326F6661, 0x346F6661)
_HEADER = struct.Struct("<IIQQ")
_SUM = struct.Struct("<I")
#: Key, step and frequency of a row; weights and slots follow.
ROW_BYTES = 16


class RowBlock(NamedTuple):
    """Rows of a table as numpy arrays."""

    #: int64: keys that went before the rows below came.
    removed: Any
    #: int64 [n].
    keys: Any
    #: uint32 [n]: step of the last update, and how often the key was seen.
    steps: Any
    frequencies: Any
    #: float32 [n, weights and slots].
    values: Any


def decode(block: bytes, url: str) -> RowBlock:
    """Arrays that share the memory of `block`. Raises DataError, which names `url`, for bytes that are no block."""
    if len(block) < _HEADER.size + _SUM.size:
        raise DataError(f"{url} is damaged: a block of {len(block)} bytes")
    magic, floats, rows, removed = _HEADER.unpack_from(block)
    size = _HEADER.size + 8 * removed + rows * (ROW_BYTES + 4 * floats) + _SUM.size
    if magic not in (_MAGIC, *_FILTER_MAGICS) or size != len(block):
        raise DataError(f"{url} is damaged: a block of {len(block)} bytes says that it has {size}")
    if _SUM.unpack_from(block, size - _SUM.size)[0] != _sum_of(block, size - _SUM.size):
        raise DataError(f"{url} is damaged: a block has another checksum than it says")
    at, found = _HEADER.size, []
    for kind, count in (("<i8", removed), ("<i8", rows), ("<u4", rows), ("<u4", rows), ("<f4", rows * floats)):
        found.append(np.frombuffer(block, kind, count, at))
        at += found[-1].nbytes
    gone, keys, steps, frequencies, values = found
    return RowBlock(gone, keys, steps, frequencies, values.reshape(rows, floats))


def is_of_filter(block: bytes) -> bool:
    """Whether a block is what a filter knows, and has no rows."""
    return len(block) >= _HEADER.size and _HEADER.unpack_from(block)[0] in _FILTER_MAGICS


def encode(block: RowBlock) -> bytes:
    """The bytes that `decode` reads."""
    rows, floats = block.values.shape
    kinds = ("<i8", "<i8", "<u4", "<u4", "<f4")
    parts = [np.ascontiguousarray(part, kind).tobytes() for part, kind in zip(block, kinds, strict=True)]
    body = b"".join([_HEADER.pack(_MAGIC, floats, rows, len(block.removed)), *parts])
    return body + _SUM.pack(_sum_of(body, len(body)))


def weights_only(block: RowBlock, dim: int) -> bytes:
    """The same rows without slots."""
    return encode(block._replace(values=block.values[:, :dim]))


def head_of(number: int, block: bytes) -> bytes:
    """What a file has before a block of table `number`."""
    return _RECORD.pack(number, len(block))


def read_blocks(file: BinaryIO, url: str, size: int) -> Iterator[tuple[int, bytes]]:
    """The records of a file of so many bytes. Raises DataError for one that was cut off, or is longer."""
    while header := _exactly(file, _RECORD.size, url, may_end=True):
        number, length = _RECORD.unpack(header)
        size -= _RECORD.size + length
        # Before it is read: what a reader takes is planned by the size.
        if length > _MOST_BYTES or size < 0:
            raise DataError(f"{url} is damaged: a block of {length} bytes")
        yield number, _exactly(file, length, url)


def _sum_of(content: bytes, size: int) -> int:
    """Of the first `size` bytes, without a copy of them all."""
    checksum = google_crc32c.Checksum()
    for first in range(0, size, _PIECE_BYTES):
        checksum.update(content[first : min(first + _PIECE_BYTES, size)])
    return int.from_bytes(checksum.digest())


def _exactly(file: BinaryIO, size: int, url: str, *, may_end: bool = False) -> bytes:
    # As nearly always: blocks are large, and not to be copied.
    if len(whole := file.read(min(size, _PIECE_BYTES))) == size:
        return whole
    found = io.BytesIO()
    while whole:
        found.write(whole)
        whole = file.read(min(size - found.tell(), _PIECE_BYTES))
    count = found.tell()
    if count == size or (may_end and count == 0):
        return found.getvalue()  # shares its memory
    raise DataError(f"{url} is cut off: {count} bytes are there where {size} should be")

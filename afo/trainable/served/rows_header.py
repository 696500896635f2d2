"""Header and checksums of a table's file, in either of the forms that afo/core/served_layout.h has."""

import struct
from typing import NamedTuple

import google_crc32c

from afo import storage
from afo.errors import DataError
from afo.job import ROW_TYPES, RowType

#: No header is longer.
MOST_HEADER_BYTES = 4096
_BLOCK_BYTES = 4096
#: To how many bytes the parts of a file are filled with zeros.
_UNITS = {b"AFOROWS3": 64, b"AFOROWS2": _BLOCK_BYTES}
#: What is before the parent's path.
_FIELDS = struct.Struct("<8sIIQQQQfI")
_SUM = struct.Struct("<I")
_LINE_BYTES = 64
_WEIGHT_BYTES: dict[RowType, int] = {"float32": 4, "bfloat16": 2, "int8": 1}
#: Of a larger file a server answers before it has read it (kCopiedAtOnce of mapped_tables.cc).
_CHECKED_BYTES = 4 << 20


class Header(NamedTuple):
    """What it says of its file."""

    #: As a table of changes names it (`ServedLayout::id`).
    id: int
    rows_at: int
    sums_at: int
    sums_checksum: int

    @property
    def blocks(self) -> int:
        """How many checksums there are."""
        return -(-self.sums_at // _BLOCK_BYTES) - self.rows_at // _BLOCK_BYTES

    @property
    def file_bytes(self) -> int:
        """Of the whole file."""
        return self.sums_at + self.blocks * _SUM.size


def rows_at(parent_path: str) -> int:
    """Where in a new file the rows begin."""
    return _rows_at(len(parent_path.encode()), _UNITS[b"AFOROWS3"])


def read_header(first: bytes, name: str) -> Header:
    """Of the first MOST_HEADER_BYTES of a file, or all of it. Raises DataError for a damaged one, or another file."""
    unit = _UNITS.get(first[:8])
    if unit is None:
        forms = " or ".join(sorted(magic.decode() for magic in _UNITS))
        raise DataError(f"{name} is no table whose changes can be written: it does not begin with {forms}")
    path_end = first.find(0, _FIELDS.size)
    begin = _rows_at(path_end - _FIELDS.size, unit)
    if path_end < 0 or len(first) < begin:
        raise _damaged(name)
    [own] = _SUM.unpack_from(first, begin - _SUM.size)
    _, kind, dim, count, removed, lines, _, _, sums = _FIELDS.unpack_from(first)
    if own != google_crc32c.value(first[: begin - _SUM.size]) or kind >= len(ROW_TYPES):
        raise _damaged(name)
    index_at = _rounded(begin + count * _stride(ROW_TYPES[kind], dim) + removed * 8, unit)
    return Header(own << 32 | sums, begin, _rounded(index_at + lines * _LINE_BYTES, unit), sums)


def check_table(url: str, size: int) -> None:
    """As a server does before it answers: the header, and all of a file that is not large. Raises NotFound, or
    DataError for a file that is damaged, or of another form.
    """
    with storage.open_input(url) as file:
        content = file.read(size if size <= _CHECKED_BYTES else MOST_HEADER_BYTES)
    header = read_header(content[:MOST_HEADER_BYTES], url)
    if size != header.file_bytes or (size <= _CHECKED_BYTES and not _is_whole(content, header)):
        raise _damaged(url)


def _is_whole(content: bytes, header: Header) -> bool:
    if len(content) != header.file_bytes:
        return False
    sums = content[header.sums_at :]
    first = header.rows_at // _BLOCK_BYTES * _BLOCK_BYTES
    found = [
        google_crc32c.value(content[max(at, header.rows_at) : min(at + _BLOCK_BYTES, header.sums_at)])
        for at in range(first, header.sums_at, _BLOCK_BYTES)
    ]
    return header.sums_checksum == google_crc32c.value(sums) and sums == b"".join(map(_SUM.pack, found))


def _damaged(name: str) -> DataError:
    return DataError(f"{name} is damaged; remove its version")


def _rows_at(path_bytes: int, unit: int) -> int:
    return _rounded(_FIELDS.size + path_bytes + 1 + _SUM.size, unit)


def _stride(kind: RowType, dim: int) -> int:
    """Bytes of a row: its key, of int8 the scale, and the weights."""
    return 8 + (4 if kind == "int8" else 0) + dim * _WEIGHT_BYTES[kind]


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit

"""TFRecord files: a sequence of byte strings with checksums, optionally compressed as a whole.

A record is its length (8 bytes, little-endian), the masked CRC-32C of those 8 bytes, the data, and the masked CRC-32C
of the data. Offsets in errors count bytes of the uncompressed sequence.
"""

import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, Literal, Self

import google_crc32c

from afo import storage
from afo.data.compression import Compression, Deflater, detect, inflated
from afo.errors import DataError

#: A length above this is taken for damage: protobuf itself reads no message of 2 GiB.
MAX_RECORD = (1 << 31) - 1
#: Bytes taken from a file at once, so that a damaged length claims no memory that the file does not fill.
BLOCK = 1 << 20
HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated right by 15 bits plus a constant, as TFRecord stores it."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """A record as it stands in the file."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CRC.pack(masked_crc(length)), record, _CRC.pack(masked_crc(record))))


class RecordWriter:
    """Writes one TFRecord file, which appears under its name when the `with` block ends without an error."""

    def __init__(self, url: str, compression: Literal["none", "gzip", "zlib"] = "none") -> None:
        self.count = 0
        self._file = storage.open_output(url)
        self._deflater = Deflater(compression)

    def write(self, record: bytes) -> None:
        """Adds one record."""
        self._file.write(self._deflater.compress(frame(record)))
        self.count += 1

    def write_all(self, records: Iterable[bytes]) -> None:
        """Adds records in one go, which is quicker than one by one."""
        frames = [frame(record) for record in records]
        self._file.write(self._deflater.compress(b"".join(frames)))
        self.count += len(frames)

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(self._deflater.flush())
        self._file.__exit__(kind, value, trace)


def read_records(
    url: str, compression: Compression = "auto", skipped: list[DataError] | None = None
) -> Iterator[bytes]:
    """The records of a file, checksums verified.

    Raises DataError with file and byte offset at the first one that is damaged or cut off. With a list for `skipped`,
    records of which only the data are damaged are left out and their errors added to it; after a damaged length nobody
    knows where the next record begins, so that is always raised.
    """
    with storage.open_input(url) as file:
        yield from read_stream(file, url, compression, skipped)


def count_records(url: str, compression: Compression = "auto") -> int:
    """Number of records of a file, checksums verified. Raises DataError."""
    return sum(1 for _ in read_records(url, compression))


def compression_of(url: str) -> Literal["none", "gzip", "zlib"]:
    """The compression of a file, by its first bytes."""
    with storage.open_input(url) as file:
        return _detect(file)


def locate(url: str, record: bytes, compression: Compression = "auto") -> int | None:
    """Offset of the first record of a file that holds these bytes; None if there is none."""
    with storage.open_input(url) as file:
        return next((offset for offset, each in _framed(file, url, compression, []) if each == record), None)


def read_stream(
    file: BinaryIO, name: str, compression: Compression = "auto", skipped: list[DataError] | None = None
) -> Iterator[bytes]:
    """As `read_records`, from an open seekable file that errors call `name`."""
    return (record for _, record in _framed(file, name, compression, skipped))


def _framed(
    file: BinaryIO, name: str, compression: Compression, skipped: list[DataError] | None
) -> Iterator[tuple[int, bytes]]:
    """Records with their offsets."""
    known = _detect(file) if compression == "auto" else compression
    source = inflated(file, name, known)
    offset = 0
    while header := source.read(HEADER.size):
        size = _length(header, name, offset)
        record = _read(source, size)
        tail = source.read(_CRC.size)
        if len(tail) < _CRC.size:
            present = HEADER.size + len(record) + len(tail)
            raise DataError(
                f"{name}: record at offset {offset} is cut off: {present} of its {HEADER.size + size + _CRC.size} bytes"
                " are there; copy or write the file again"
            )
        if masked_crc(record) == _CRC.unpack(tail)[0]:
            yield offset, record
        else:
            error = DataError(
                f"{name}: data of the record at offset {offset} is damaged: wrong checksum over {size} bytes"
            )
            if skipped is None:
                raise error
            skipped.append(error)
        offset += HEADER.size + size + _CRC.size


def _detect(file: BinaryIO) -> Literal["none", "gzip", "zlib"]:
    head = file.read(HEADER.size)
    file.seek(0)
    # A whole header with its checksum says TFRecord, whatever the first two bytes look like.
    if len(head) == HEADER.size and masked_crc(head[:8]) == HEADER.unpack(head)[1]:
        return "none"
    return detect(head)


def _length(header: bytes, name: str, offset: int) -> int:
    if len(header) < HEADER.size:
        raise DataError(
            f"{name}: record at offset {offset} is cut off:"
            f" {len(header)} of the {HEADER.size} bytes of its header are there; copy or write the file again"
        )
    size: int
    size, crc = HEADER.unpack(header)
    if masked_crc(header[:8]) != crc:
        hint = "; is it a TFRecord file?" if offset == 0 else ""
        raise DataError(f"{name}: length of the record at offset {offset} is damaged: wrong checksum{hint}")
    if size > MAX_RECORD:
        raise DataError(f"{name}: record at offset {offset} claims {size} bytes; the most is {MAX_RECORD}")
    return size


def _read(source: BinaryIO, size: int) -> bytes:
    if size <= BLOCK:
        return source.read(size)
    parts: list[bytes] = []
    while size and (part := source.read(min(size, BLOCK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

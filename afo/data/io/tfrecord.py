"""TFRecord files: a sequence of byte strings with checksums, optionally compressed as a whole.

A record is its length (8 bytes, little-endian), the masked CRC-32C of those 8 bytes, the data, and the masked CRC-32C
of the data. Offsets in errors count bytes of the uncompressed sequence.
"""

import codecs
import os
import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, Literal, Self

import google_crc32c

from afo import storage
from afo.data.io.compression import Compression, Deflater, detect, inflate
from afo.data.io.record_index import IndexBuilder, RecordIndex, index_url, write_index
from afo.errors import DataError
from afo.storage.url import ByteRange

#: A length above this is taken for damage: protobuf itself reads no message of 2 GiB.
MAX_RECORD = (1 << 31) - 1
#: Bytes taken from a file at once, so that a damaged length claims no memory that the file does not fill.
BLOCK = 1 << 20
HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_HINT_WHOLE = "; is it a TFRecord file?"
_HINT_PART = "; no record of the file begins here: its index is of another one"


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated right by 15 bits plus a constant, as TFRecord stores it."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """A record as it stands in the file."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CRC.pack(masked_crc(length)), record, _CRC.pack(masked_crc(record))))


class RecordWriter:
    """Writes one TFRecord file, which appears under its name when the `with` block ends without an error.

    With `indexed` its index appears thereafter, which takes an uncompressed file; else an index of an earlier file of
    this name is deleted.
    """

    def __init__(
        self, url: str, compression: Literal["none", "gzip", "zlib"] = "none", *, indexed: bool = False
    ) -> None:
        if indexed and compression != "none":
            raise DataError(f"{url}: a file in {compression} has no index, for it is read from its start alone")
        self.count = 0
        self._url = url
        self._index = IndexBuilder() if indexed else None
        self._file = storage.open_output(url)
        self._deflater = Deflater(compression)

    def write(self, record: bytes) -> None:
        """Adds one record."""
        self.write_all((record,))

    def write_all(self, records: Iterable[bytes]) -> None:
        """Adds records in one go, which is quicker than one by one."""
        frames = [frame(record) for record in records]
        self._file.write(self._deflater.compress(b"".join(frames)))
        self.count += len(frames)
        if self._index is not None:
            for framed in frames:
                self._index.add(len(framed))

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(self._deflater.flush())
        self._file.__exit__(kind, value, trace)
        if kind is None:
            self._renew_index()

    def _renew_index(self) -> None:
        if self._index is not None:
            write_index(self._url, self._index.build())
        else:
            storage.delete(index_url(self._url))


def read_records(
    url: str,
    compression: Compression = "auto",
    skipped: list[DataError] | None = None,
    part: ByteRange | None = None,
) -> Iterator[bytes]:
    """The records of a file, or of a part of an uncompressed one, checksums verified.

    Raises DataError with file and byte offset at the first one that is damaged or cut off. With a list for `skipped`,
    records of which only the data are damaged are left out and their errors added to it; after a damaged length nobody
    knows where the next record begins, so that is always raised.
    """
    with storage.open_input(url) as file:
        yield from read_stream(file, url, compression, skipped, part)


def count_records(url: str, compression: Compression = "auto") -> int:
    """Number of records of a file, checksums verified. Raises DataError."""
    return sum(1 for _ in read_records(url, compression))


def compression_of(url: str) -> Literal["none", "gzip", "zlib"]:
    """The compression of a file, by its first bytes."""
    with storage.open_input(url) as file:
        return _detect(file)


def locate(url: str, record: bytes, compression: Compression = "auto", part: ByteRange | None = None) -> int | None:
    """Offset of the first record of a file, or a part of it, that holds these bytes; None if there is none."""
    with storage.open_input(url) as file:
        return next(
            (offset for offset, content in _read_frames(file, url, compression, [], part) if content == record), None
        )


def read_stream(
    file: BinaryIO,
    name: str,
    compression: Compression = "auto",
    skipped: list[DataError] | None = None,
    part: ByteRange | None = None,
) -> Iterator[bytes]:
    """As `read_records`, from an open seekable file that errors call `name`."""
    return (record for _, record in _read_frames(file, name, compression, skipped, part))


def _read_frames(
    file: BinaryIO, name: str, compression: Compression, skipped: list[DataError] | None, part: ByteRange | None = None
) -> Iterator[tuple[int, bytes]]:
    """Records with their offsets in the file. A part begins with a record and ends with one, or that is an error."""
    source = _decompress(file, name, compression) if part is None else _Part(file, part)
    offset = 0 if part is None else part.begin
    while (header := source.read(HEADER.size)) or (part is not None and offset != part.end):
        size = _length(header, name, offset, part)
        record = _read(source, size)
        tail = source.read(_CRC.size)
        whole = HEADER.size + size + _CRC.size
        if len(tail) < _CRC.size:
            present = HEADER.size + len(record) + len(tail)
            raise _truncation_error(name, offset, f"{present} of its {whole} bytes", part)
        if masked_crc(record) == _CRC.unpack(tail)[0]:
            yield offset, record
        else:
            error = DataError(
                f"{name}: data of the record at offset {offset} is damaged: wrong checksum over {size} bytes"
            )
            if skipped is None:
                raise error
            skipped.append(error)
        offset += whole


class _Part:
    """Reads a part of a file as if it were all of it."""

    def __init__(self, file: BinaryIO, part: ByteRange) -> None:
        file.seek(part.begin)
        self._file = file
        self._left = part.end - part.begin

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _decompress(file: BinaryIO, name: str, compression: Compression) -> BinaryIO:
    return inflate(file, name, _detect(file) if compression == "auto" else compression)


def _detect(file: BinaryIO) -> Literal["none", "gzip", "zlib"]:
    head = file.read(HEADER.size)
    file.seek(0)
    # A whole header with its checksum says TFRecord, whatever the first two bytes look like.
    return "none" if is_header(head) else detect(head)


def is_header(head: bytes) -> bool:
    """Whether these bytes are the length of a record and its checksum."""
    return len(head) == HEADER.size and masked_crc(head[:8]) == HEADER.unpack(head)[1]


def read_head(url: str) -> bytes:
    """The first bytes of a file, uncompressed: as many as the header of a record. Raises DataError."""
    with storage.open_input(url) as file:
        return _decompress(file, url, "auto").read(HEADER.size)


def text_hint(head: bytes) -> str:
    """What to say of a file that begins so where text cannot be read; empty if it does not look like text."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)  # of a character cut in two, nothing
    except UnicodeDecodeError:
        return ""
    is_text = bool(text) and all(letter in "\t\n\r" or letter.isprintable() for letter in text)
    return "; it looks like text: `afo data convert` writes TFRecord files of CSV" if is_text else ""


def _hint(header: bytes) -> str:
    """What a file may be whose first record has no length."""
    if header.startswith(b"PAR1"):
        return "; it is a Parquet file: say `data.format: parquet`"
    return text_hint(header) or _HINT_WHOLE


def _length(header: bytes, name: str, offset: int, part: ByteRange | None) -> int:
    if len(header) < HEADER.size:
        raise _truncation_error(name, offset, f"{len(header)} of the {HEADER.size} bytes of its header", part)
    size: int
    size, crc = HEADER.unpack(header)
    if masked_crc(header[:8]) != crc:
        hint = _hint(header) if part is None else _HINT_PART
        first = offset == (0 if part is None else part.begin)
        raise DataError(
            f"{name}: length of the record at offset {offset} is damaged: wrong checksum{hint if first else ''}"
        )
    if size > MAX_RECORD:
        raise DataError(f"{name}: record at offset {offset} claims {size} bytes; the most is {MAX_RECORD}")
    return size


def _truncation_error(name: str, offset: int, present: str, part: ByteRange | None) -> DataError:
    place = f"{name}: record at offset {offset}"
    if part is None:
        return DataError(f"{place} is cut off: {present} are there; copy or write the file again")
    return DataError(
        f"{place} does not end within its split, which ends at {part.end}: the file is cut off, or its index is of"
        " another one"
    )


def _read(source: BinaryIO | _Part, size: int) -> bytes:
    if size <= BLOCK:
        return source.read(size)
    parts: list[bytes] = []
    while size and (part := source.read(min(size, BLOCK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def index_records(url: str) -> RecordIndex:
    """The index of a file, made from the lengths of its records; their data is passed over.

    Raises DataError for a compressed file, which nobody reads from its middle, and for one that is damaged or cut off.
    """
    with storage.open_input(url) as file:
        if (compression := _detect(file)) != "none":
            raise DataError(f"{url}: a file in {compression} has no index, for it is read from its start alone")
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        builder, offset = IndexBuilder(), 0
        while header := file.read(HEADER.size):
            length = HEADER.size + _length(header, url, offset, None) + _CRC.size
            if offset + length > size:
                raise _truncation_error(url, offset, f"{size - offset} of its {length} bytes", None)
            file.seek(offset := offset + length)
            builder.add(length)
    return builder.build()

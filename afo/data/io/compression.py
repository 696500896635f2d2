"""Whole-file compression: gzip and zlib, written and read as a stream, and recognised by their first bytes."""

import io
import zlib
from typing import BinaryIO, Literal, cast

from afo.errors import DataError

Compression = Literal["auto", "none", "gzip", "zlib"]

#: zlib's window argument for each format.
_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "zlib": zlib.MAX_WBITS}
_BLOCK = 1 << 18
#: Level 6 takes thrice as long for a tenth less; training data is written often and read from near disks.
_LEVEL = 3


def detect(head: bytes) -> Literal["none", "gzip", "zlib"]:
    """The format of a file that begins with `head`: gzip's magic number, or a zlib header that sums up."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    # RFC 1950: method 8, window of at most 32 KiB, and the two bytes are a multiple of 31.
    if len(head) >= 2 and head[0] & 0x8F == 0x08 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return "none"


class Deflater:
    """Compresses a stream; `none` passes it through."""

    def __init__(self, compression: Literal["none", "gzip", "zlib"]) -> None:
        self._engine = None if compression == "none" else zlib.compressobj(_LEVEL, wbits=_WINDOW[compression])

    def compress(self, data: bytes) -> bytes:
        """What may be written by now."""
        return data if self._engine is None else self._engine.compress(data)

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        return b"" if self._engine is None else self._engine.flush()


def inflate(file: BinaryIO, name: str, compression: Literal["none", "gzip", "zlib"]) -> BinaryIO:
    """The uncompressed bytes of `file`; reading raises DataError where they are damaged or cut off."""
    if compression == "none":
        return file
    return cast(BinaryIO, io.BufferedReader(_Inflating(file, name, compression), _BLOCK))


class _Inflating(io.RawIOBase):
    """Bounded memory: never more than asked for is unpacked, whatever the compressed bytes claim."""

    def __init__(self, file: BinaryIO, name: str, compression: Literal["gzip", "zlib"]) -> None:
        self._file = file
        self._name = name
        self._compression = compression
        self._engine = zlib.decompressobj(_WINDOW[compression])
        self._pending = b""
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer is wider
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def _next(self, most: int) -> bytes:
        while True:
            if not self._pending:
                self._pending = self._file.read(_BLOCK)
                if not self._pending:
                    return self._end()
            if self._engine.eof:  # several compressed streams may follow one another in a file
                self._engine = zlib.decompressobj(_WINDOW[self._compression])
            if data := self._inflate(most):
                return data

    def _inflate(self, most: int) -> bytes:
        try:
            data = self._engine.decompress(self._pending, most)
        except zlib.error as error:
            place = self._file.tell() - len(self._pending)
            raise DataError(
                f"{self._name}: {self._compression} data is damaged near byte {place} of the file: {error}"
            ) from error
        self._begun = True
        self._pending = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
        return data

    def _end(self) -> bytes:
        if self._begun and not self._engine.eof:
            # Output that zlib still holds back comes before the verdict.
            if rest := self._engine.decompress(b"", _BLOCK):
                return rest
            raise DataError(
                f"{self._name}: {self._compression} data is cut off at byte {self._file.tell()} of the file;"
                " copy or write it again"
            )
        return b""

"""A part of a file."""

from typing import NamedTuple


class ByteRange(NamedTuple):
    """The bytes from offset `begin` on, those before offset `end`."""

    begin: int
    end: int


def named(url: str, part: ByteRange | None) -> str:
    """What a file, or a part of it, is called: `URL`, or as Hadoop calls its splits `URL:begin+length`."""
    return url if part is None else f"{url}:{part.begin}+{part.end - part.begin}"

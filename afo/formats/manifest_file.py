"""A manifest as it lies in storage: a JSON object with its format and, as its last key, a checksum of itself.

The checksum is of every byte before it, so a manifest that was changed anywhere, in a blank even, is refused.
"""

import re
from typing import NamedTuple, Protocol, TypeVar

import google_crc32c
import msgspec

from afo.errors import DataError
from afo.formats import decoding

_SEAL = re.compile(rb',\n "crc32c": "([0-9a-f]{8})"\n}')
_SEAL_BYTES = len(b',\n "crc32c": "00000000"\n}')


class Versioned(Protocol):
    """What says its own format."""

    @property
    def version(self) -> int: ...


_T = TypeVar("_T", bound=Versioned)


class Formats(NamedTuple):
    """Which formats of `what` are read: those up to `newest`, which have a checksum since `sealed`."""

    what: str
    newest: int
    sealed: int


def encode(manifest: Versioned) -> bytes:
    """The file of a manifest."""
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=1).removesuffix(b"\n}")
    return b'%s,\n "crc32c": "%08x"\n}' % (body, google_crc32c.value(body))


def read(url: str, kind: type[_T], formats: Formats) -> _T:
    """Raises NotFound, or DataError for one that is damaged, malformed or of a format this program does not know."""
    content, is_sealed = _unseal(url, decoding.whole(url))
    manifest = decoding.from_json(content, kind, url)
    if not 1 <= manifest.version <= formats.newest:
        raise DataError(
            f"{url}: {formats.what} of format {manifest.version}; this version of afo reads formats 1 to"
            f" {formats.newest}"
        )
    if manifest.version >= formats.sealed and not is_sealed:
        raise damage_error(url, f"format {manifest.version} ends with a checksum, which is missing")
    return manifest


def damage_error(url: str, why: str) -> DataError:
    """The error about a manifest that is not as it was written."""
    return DataError(f"{url} is damaged: {why}; put back a copy that is whole, or take an earlier checkpoint")


def _unseal(url: str, data: bytes) -> tuple[bytes, bool]:
    """The JSON without its checksum, and whether there was one, which is right then."""
    seal = _SEAL.fullmatch(data, max(0, len(data) - _SEAL_BYTES))
    if seal is None:
        return data, False
    body = data[: seal.start()]
    found, written = google_crc32c.value(body), int(seal[1], 16)
    if found != written:
        raise damage_error(url, f"its CRC-32C is {found:08x}, and it says {written:08x}")
    return body + b"\n}", True

"""Files of served tables in the form of earlier exports, AFOROWS2 (afo/core/served_layout.h)."""

import struct

import google_crc32c

#: Places of a line, whose numbers have 32 bits.
_PLACES, _BLOCK = 12, 4096
_FIELDS = struct.Struct("<8sIIQQQQfI")


def padded(content: bytes) -> bytes:
    """A file in that form of one in today's, of at most 9 keys: all are in one line."""
    _, kind, dim, count, removed, _, parent, absent, _ = _FIELDS.unpack_from(content)
    path = content[_FIELDS.size : content.index(0, _FIELDS.size)]
    stride = 8 + (4 if kind == 2 else 0) + dim * (4, 2, 1)[kind]
    at = -(-(_FIELDS.size + len(path) + 5) // 64) * 64
    rows = content[at : at + count * stride + removed * 8]
    places = [each * stride for each in range(count)] + [count * stride + each * 8 for each in range(removed)]
    body = _filled(rows) + _filled(_line([int.from_bytes(rows[each : each + 8], "little") for each in places]))
    sums = b"".join(_sum(body[each : each + _BLOCK]) for each in range(0, len(body), _BLOCK))
    of_sums = google_crc32c.value(sums)
    fields = _FIELDS.pack(b"AFOROWS2", kind, dim, count, removed, 1, parent, absent, of_sums)
    header = _filled(fields + path + bytes(5))[:-4]
    return header + _sum(header) + body + sums


def _line(keys: list[int]) -> bytes:
    assert len(keys) <= 9
    tags = bytes(_hash(key) & 0xFF or 1 for key in keys)
    numbers = struct.pack(f"<{len(keys)}I", *range(len(keys)))
    return tags.ljust(16, b"\0") + numbers.ljust(4 * _PLACES, b"\0")


def _hash(key: int) -> int:
    """As afo/core/hash.h has it."""
    mixed = (key + 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return mixed ^ mixed >> 31


def _filled(content: bytes) -> bytes:
    return content.ljust(-(-len(content) // _BLOCK) * _BLOCK, b"\0")


def _sum(content: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(content))

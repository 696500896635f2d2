"""Rows of a group of tables as streams of blocks, on one server: out to a file, and in from one.

file  := (table u32, length u64, block)*        little-endian; the block is in afo/core/snapshot.h
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import tensorflow as tf

from afo.embedding.group import TableGroup
from afo.errors import DataError
from afo.ops.library import load

_RECORD = struct.Struct("<IQ")
#: Bytes of one block, about: what a message carries, and what is in memory at a time.
_BLOCK_BYTES = 4 << 20
#: A longer record is damage.
_MOST_BYTES = 1 << 31
#: Header, key, step and frequency of a row; see afo/core/snapshot.h.
_ROW_BYTES = 16


class Slice(NamedTuple):
    """A part of a server's rows: those of every `parts`-th shard."""

    server: int
    part: int
    parts: int


def blocks(group: TableGroup, place: Slice, since: list[int]) -> Iterator[tuple[int, bytes]]:
    """(number of the table, block) of all tables; `since`: each one's epoch of the first change, or -1 for all rows."""
    ops = load()
    with tf.device(group.devices[place.server]):
        handle = group.handle(place.server)
    for number, table in enumerate(group.tables):
        most = max(1, _BLOCK_BYTES // (_ROW_BYTES + 4 * table.dim * (1 + table.optimizer.slots)))
        cursor = 0
        while cursor >= 0:
            with tf.device(group.devices[place.server]):
                block, following = ops.afo_export_block(
                    handle, tf.constant(cursor, tf.int64), tf.constant(since[number], tf.int64),
                    number=number, part=place.part, parts=place.parts, most=most,
                )  # fmt: skip
            cursor = int(following)
            if content := block.numpy():
                yield number, content


def record_of(number: int, block: bytes) -> bytes:
    """A block as a file has it."""
    return _RECORD.pack(number, len(block)) + block


def read_blocks(file: BinaryIO, url: str) -> Iterator[tuple[int, bytes]]:
    """The records of a file. Raises DataError for one that was cut off."""
    while header := _exactly(file, _RECORD.size, url, may_end=True):
        number, length = _RECORD.unpack(header)
        if length > _MOST_BYTES:
            raise DataError(f"{url} is damaged: a block of {length} bytes")
        yield number, _exactly(file, length, url)


def import_block(group: TableGroup, server: int, number: int, block: bytes, url: str) -> int:
    """Overwrites rows of a server by those of a block that belong there. Raises DataError for a damaged block, or one
    of rows of another width."""
    try:
        with tf.device(group.devices[server]):
            rows = load().afo_import_block(
                group.handle(server), tf.constant(block), number=number, server=server, servers=group.servers
            )
        return int(rows)
    except (tf.errors.DataLossError, tf.errors.FailedPreconditionError) as error:
        raise DataError(f"{url}: {error.message}") from error


def _exactly(file: BinaryIO, size: int, url: str, *, may_end: bool = False) -> bytes:
    found = bytearray()
    while len(found) < size and (more := file.read(size - len(found))):
        found += more
    if len(found) == size or (may_end and not found):
        return bytes(found)
    raise DataError(f"{url} is cut off: {len(found)} bytes are there where {size} should be")

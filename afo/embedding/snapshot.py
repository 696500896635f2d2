"""Rows of a group of tables as streams of blocks (`afo.embedding.row_block`), out of a server and into one."""

from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from afo.embedding import row_block
from afo.embedding.group import TableGroup
from afo.errors import DataError

#: Bytes of one block, about: what a message carries, and what is in memory at a time.
_BLOCK_BYTES = 4 << 20


class Slice(NamedTuple):
    """A part of a server's rows: those of every `parts`-th shard."""

    server: int
    part: int
    parts: int


def blocks(group: TableGroup, place: Slice, since: list[int]) -> Iterator[tuple[int, bytes]]:
    """(number of the table, block) of all tables; `since`: each one's epoch of the first change, or -1 for all rows."""
    server = group.server(place.server)
    for number, table in enumerate(group.tables):
        most = max(1, _BLOCK_BYTES // (row_block.ROW_BYTES + 4 * table.dim * (1 + table.optimizer.slots)))
        cursor = 0
        while cursor >= 0:
            block, cursor = server.export_block(number, place.part, place.parts, most, cursor, since[number])
            if block:
                yield number, block


def import_block(
    group: TableGroup, server: int, number: int, block: bytes, url: str, *, weights_only: bool = False
) -> int:
    """Overwrites rows of a server by those of a block that belong there; returns how many those are.

    `weights_only`: the block has no slots (`afo.embedding.row_block`). Raises DataError for a damaged block, or one of
    rows of another width.
    """
    try:
        return group.server(server).import_block(number, block, weights_only=weights_only)
    except (tf.errors.DataLossError, tf.errors.FailedPreconditionError) as error:
        # Of an error inside of a function the graph's words stand around the operation's.
        words = [line for line in error.message.splitlines() if line and not line.startswith(("\t", " "))]
        raise DataError(f"{url}: {words[-1]}") from error

"""Pieces of splits on their way into batches, and what became of every record that was read.

Positions count all records of a split in the order they are read. Some are left out of the training (negatives that
are not sampled, records that cannot be parsed), so a piece carries beside each record how many were left out since the
one before, and the xor of their hashed ids: whoever applies the record accounts for those as well. What was left out
behind the last record of a split goes into its end.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from afo.data.io.arrays import as_tensor, concatenate, take_rows
from afo.data.io.bad_records import NONE, Tally
from afo.data.pipeline.split_reader import Lease

_Int64s = NDArray[np.int64]


class Piece(NamedTuple):
    """Records of one split in their order."""

    lease: Lease
    #: Nest of tensors or arrays [n, …], as the parser takes it. Of arrays, those of a Parquet file's columns, any part
    #: is had at once, where TensorFlow runs an operation for each column.
    block: Any
    #: int64 [n]: records left out before each, and the xor of their hashed ids.
    left_out: _Int64s
    xor: _Int64s

    @classmethod
    def whole(cls, lease: Lease, block: Any) -> "Piece":
        """A block as it was read."""
        nothing = np.zeros(size_of(block), np.int64)
        return cls(lease, block, nothing, nothing)

    @property
    def size(self) -> int:
        """Records in it."""
        return len(self.left_out)

    def slice(self, start: int, stop: int | None = None) -> "Piece":
        """Some of its records."""
        block = tf.nest.map_structure(lambda values: values[start:stop], self.block)
        return Piece(self.lease, block, self.left_out[start:stop], self.xor[start:stop])


class Ended(NamedTuple):
    """The end of a split: how many records were left out after the last one given, and the xor of their hashed ids."""

    lease: Lease
    left_out: int = 0
    xor: int = 0
    #: All bad records of the split.
    bad: Tally = NONE


class Origins(NamedTuple):
    """Where B records of a batch come from, int64 [B] each."""

    #: Row of the split among the training files, and the epoch.
    files: Any
    epochs: Any
    #: Records of the same split left out before this one, and the xor of their hashed ids.
    left_out: Any
    xors: Any


class Carry:
    """Left out records that wait for the next record, or the end, of their split."""

    def __init__(self) -> None:
        self._waiting: dict[Lease, tuple[int, int]] = {}

    def add(self, lease: Lease, left_out: int, xor: int) -> None:
        """More of them."""
        if left_out:
            before, xor_before = self._waiting.get(lease, (0, 0))
            self._waiting[lease] = before + left_out, xor_before ^ xor

    def add_to(self, piece: Piece) -> Piece:
        """The piece, its first record accounting for them."""
        if not piece.size or piece.lease not in self._waiting:
            return piece
        left_out, xor = self._waiting.pop(piece.lease)
        more, xors = piece.left_out.copy(), piece.xor.copy()
        more[0] += left_out
        xors[0] ^= xor
        return piece._replace(left_out=more, xor=xors)

    def add_to_end(self, ended: Ended) -> Ended:
        """The end, accounting for them."""
        left_out, xor = self._waiting.pop(ended.lease, (0, 0))
        return ended._replace(left_out=ended.left_out + left_out, xor=ended.xor ^ xor)


def filter_records(piece: Piece, keep: NDArray[np.bool_], identity: _Int64s, carry: Carry) -> Piece:
    """The records to `keep` [n]; the others, of hashed ids `identity` [n], go to the next kept one or into `carry`."""
    counts = np.cumsum(piece.left_out + ~keep)
    xors = np.bitwise_xor.accumulate(piece.xor ^ np.where(keep, 0, identity))
    kept = np.flatnonzero(keep)
    last = kept[-1] if kept.size else None
    total, xor = (int(counts[-1]), int(xors[-1])) if piece.size else (0, 0)
    behind = (total, xor) if last is None else (total - int(counts[last]), xor ^ int(xors[last]))
    block = tf.nest.map_structure(lambda values: _rows(values, kept), piece.block)
    before = np.concatenate([[0], xors[kept][:-1]]).astype(np.int64)[: kept.size]
    result = carry.add_to(Piece(piece.lease, block, np.diff(counts[kept], prepend=0), xors[kept] ^ before))
    carry.add(piece.lease, *behind)
    return result


class Pending:
    """Pieces in the order they were read, with a mark behind the last piece of each split."""

    def __init__(self) -> None:
        self._items: deque[Piece | Ended] = deque()
        #: What was left out of the pieces that were taken last.
        self.taken = Carry()
        #: Records in all pieces.
        self.size = 0

    def add(self, piece: Piece) -> None:
        """The next piece that was read."""
        if piece.size:
            self._items.append(piece)
            self.size += piece.size

    def add_end(self, ended: Ended) -> None:
        """A split has no more."""
        self._items.append(ended)

    def take(self, most: int) -> tuple[list[Piece], list[Ended]]:
        """Pieces of together at most `most` records, and the splits that end with them."""
        pieces: list[Piece] = []
        ended: list[Ended] = []
        while self._items and (most > 0 or isinstance(self._items[0], Ended)):
            item = self._items.popleft()
            if isinstance(item, Ended):
                ended.append(item)
                continue
            if item.size > most:
                self._items.appendleft(item.slice(most))
                item = item.slice(0, most)
            pieces.append(self.taken.add_to(item))
            most -= item.size
            self.size -= item.size
        return pieces, ended


def size_of(block: Any) -> int:
    """Number of records in a block."""
    return int(tf.nest.flatten(block)[0].shape[0])


def join_pieces(pieces: list[Piece]) -> tuple[Any, Origins]:
    """All records as one block of tensors, and where they come from."""
    block = tf.nest.map_structure(lambda *parts: _whole(parts), *(piece.block for piece in pieces))
    sizes = [piece.size for piece in pieces]
    return block, Origins(
        files=tf.constant(np.repeat([piece.lease.split for piece in pieces], sizes), tf.int64),
        epochs=tf.constant(np.repeat([piece.lease.epoch for piece in pieces], sizes), tf.int64),
        left_out=tf.constant(np.concatenate([piece.left_out for piece in pieces]), tf.int64),
        xors=tf.constant(np.concatenate([piece.xor for piece in pieces]), tf.int64),
    )


def as_tensors(block: Any) -> Any:
    """A block, its arrays as tensors."""
    return tf.nest.map_structure(lambda values: _whole((values,)), block)


def _rows(values: Any, rows: _Int64s) -> Any:
    return take_rows(values, rows) if isinstance(values, np.ndarray) else tf.gather(values, rows)


def _whole(parts: tuple[Any, ...]) -> Any:
    """One tensor of all parts, a copy only where there are several."""
    if isinstance(parts[0], np.ndarray):
        return as_tensor(parts[0] if len(parts) == 1 else concatenate(parts))
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)

"""Batches of training records out of splits that are leased one after the other.

    SplitFetcher (thread)  leases, copies files here, one ahead
    Batcher (thread)       opens OPEN_SPLITS of them, mixes their blocks, cuts batches, prepares them (parse, hash …)
    training loop          takes prepared batches out of a short queue and measures how long it had to wait

Every record stays with its split's row, and a mark follows the last record of each split, so the loop learns from the
batch that holds it (or a later one) that the split has been read to its end.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from afo.data.example import decode
from afo.data.schema import Schema
from afo.data.split_fetcher import Fetched, NextSplit, SplitFetcher
from afo.data.split_reader import Lease, SplitReader
from afo.data.tfrecord import read_records
from afo.errors import DataError
from afo.job import Data

#: Splits that are mixed with one another.
OPEN_SPLITS = 2
#: Prepared batches that may wait for the training loop.
AHEAD = 3
#: Records of the first file that are held against the schema.
PROBE_RECORDS = 100

#: (records string [B], rows int64 [B], epochs int64 [B]) → what the training step takes.
Prepare = Callable[[Any, Any, Any], Any]


class Batch(NamedTuple):
    """Prepared records; `ended` are the splits whose last record is in this batch or an earlier one."""

    inputs: Any
    size: int
    ended: tuple[Lease, ...]


class TrainingInput:
    """Iterates over `Batch` in a background thread; use it in a `with` block."""

    def __init__(self, next_split: NextSplit, schema: Schema, data: Data, scratch: Path, prepare: Prepare) -> None:
        self._fetcher = SplitFetcher(next_split, scratch, OPEN_SPLITS)
        self._batcher = _Batcher(self._fetcher, schema, data, prepare)
        #: Seconds that `get` blocked before it gave a batch.
        self.wait_s = 0.0

    def __enter__(self) -> "TrainingInput":
        self._fetcher.start()
        self._batcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.stop()
        self._batcher.stop()

    def get(self, timeout_s: float) -> Batch | Literal["wait", "end"]:
        """The next batch; `wait` if there was none in time, `end` when the data is over. Raises what reading raised."""
        began = time.monotonic()
        try:
            item = self._batcher.batches.get(timeout=timeout_s)
        except queue.Empty:
            return "wait"
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, Batch):
            self.wait_s += time.monotonic() - began
        return item


class _Batcher(threading.Thread):
    """Reads the fetched splits."""

    def __init__(self, fetcher: SplitFetcher, schema: Schema, data: Data, prepare: Prepare) -> None:
        super().__init__(name="batcher", daemon=True)
        self.batches: queue.Queue[Batch | Literal["end"] | BaseException] = queue.Queue(AHEAD)
        self._fetcher = fetcher
        self._schema = schema
        self._data = data
        self._prepare = prepare
        self._open: deque[tuple[SplitReader, Fetched]] = deque()
        self._pending = _Pending()
        self._checked = False
        self._stop_asked = threading.Event()

    def stop(self) -> None:
        """Read nothing more."""
        self._stop_asked.set()

    def run(self) -> None:
        """The thread."""
        try:
            while not self._stop_asked.is_set() and self._open_more():
                self._read_block()
                while self._pending.size >= self._data.batch_size:
                    self._emit()
            self._put("end")
        except BaseException as error:  # crosses into the thread that trains, which raises it
            self._put(error)
        finally:
            for _, fetched in self._open:
                fetched.file.discard()

    def _open_more(self) -> bool:
        """Open what was fetched. With nothing open, waits; false at the end of the data."""
        while len(self._open) < OPEN_SPLITS:
            try:
                item = self._fetcher.items.get(block=not self._open)
            except queue.Empty:
                return True
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Fetched):
                self._open_split(item)
            elif not self._open:
                # Others may be waiting for what is left in our hands: no batch gets fuller by waiting.
                self._emit()
                if item == "end":
                    return False
            elif item == "end":
                self._fetcher.items.put(item)
                return True
        return True

    def _open_split(self, fetched: Fetched) -> None:
        if not self._checked:
            self._check_schema(fetched)
        block = max(1, self._data.batch_size // OPEN_SPLITS)
        self._open.append((SplitReader(fetched.lease, fetched.file.path, self._data, block), fetched))

    def _check_schema(self, fetched: Fetched) -> None:
        # Damage is the reader's business, who has a budget for it.
        records = read_records(str(fetched.file.path), self._data.compression, [])
        first = [decode(record) for record in islice(records, PROBE_RECORDS)]
        if first:
            self._schema.validate_against(first, fetched.lease.url)
            self._checked = True

    def _read_block(self) -> None:
        """One block of the split whose turn it is."""
        if not self._open:
            return
        reader, fetched = self._open.popleft()
        block = reader.next_block()
        if block is not None:
            self._pending.add(reader.lease, block)
            self._open.append((reader, fetched))
            return
        self._pending.add_end(reader.lease)
        fetched.file.discard()
        self._fetcher.done()

    def _emit(self) -> None:
        pieces, ended = self._pending.take(self._data.batch_size)
        if not pieces and not ended:
            return
        size = sum(int(records.shape[0]) for _, records in pieces)
        self._put(Batch(self._prepared(pieces) if size else None, size, tuple(ended)))

    def _prepared(self, pieces: list[tuple[Lease, Any]]) -> Any:
        records = tf.concat([block for _, block in pieces], axis=0)
        sizes = [int(block.shape[0]) for _, block in pieces]
        rows = tf.repeat(tf.constant([lease.row for lease, _ in pieces], tf.int64), sizes)
        epochs = tf.repeat(tf.constant([lease.epoch for lease, _ in pieces], tf.int64), sizes)
        try:
            return self._prepare(records, rows, epochs)
        except tf.errors.InvalidArgumentError as error:
            files = ", ".join(sorted({lease.url for lease, _ in pieces}))
            raise DataError(f"{files}: a record does not fit the schema: {error.message.splitlines()[0]}") from error

    def _put(self, item: Any) -> None:
        while not self._stop_asked.is_set():
            try:
                return self.batches.put(item, timeout=0.2)
            except queue.Full:
                continue


class _Pending:
    """Blocks in the order they were read, with a mark (None) behind the last block of each split."""

    def __init__(self) -> None:
        self._items: deque[tuple[Lease, Any | None]] = deque()
        #: Records in all blocks.
        self.size = 0

    def add(self, lease: Lease, block: Any) -> None:
        self._items.append((lease, block))
        self.size += int(block.shape[0])

    def add_end(self, lease: Lease) -> None:
        self._items.append((lease, None))

    def take(self, most: int) -> tuple[list[tuple[Lease, Any]], list[Lease]]:
        """Blocks of together at most `most` records, and the splits that end with them."""
        pieces: list[tuple[Lease, Any]] = []
        ended: list[Lease] = []
        while self._items and (most > 0 or self._items[0][1] is None):
            lease, block = self._items.popleft()
            if block is None:
                ended.append(lease)
                continue
            if block.shape[0] > most:
                self._items.appendleft((lease, block[most:]))
                block = block[:most]
            pieces.append((lease, block))
            most -= int(block.shape[0])
            self.size -= int(block.shape[0])
        return pieces, ended

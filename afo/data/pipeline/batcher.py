"""Batches of training records out of splits that are leased one after the other.

    SplitFetcher (thread)  leases, copies files here, one ahead
    Batcher (thread)       opens OPEN_SPLITS of them, mixes their blocks, cuts batches, prepares them (parse, hash …)
    training loop          takes prepared batches out of a short queue and measures how long it waits, and for what

Every record stays with its split's number, and a mark follows the last record of each split, so the loop learns from
the batch that holds it (or a later one) that the split has been read to its end. Negatives that are not sampled are
left out before batches are cut, bad records when a batch turns out to hold some; `pieces` keeps account of both.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from afo.data.io.bad_records import BadRecords
from afo.data.io.examples import first_examples, validate_first
from afo.data.pipeline.bad_record_locator import Judge
from afo.data.pipeline.batch_fragments import Carry, Ended, Origins, Pending, Piece, join_pieces
from afo.data.pipeline.record_filter import Sieve, require_bad
from afo.data.pipeline.split_fetcher import Fetched, NextSplit, SplitFetcher
from afo.data.pipeline.split_reader import Lease, SplitReader
from afo.data.pipeline.stage_timer import Stages
from afo.data.schema import Schema
from afo.job import Data
from afo.models.parser import RecordParser
from afo.protocol.input_wait import InputWait

#: Splits that are mixed with one another.
OPEN_SPLITS = 2
#: Prepared batches that may wait for the training loop.
AHEAD = 3
#: Records of the first file that are held against the schema.
PROBE_RECORDS = 100

#: B records as the parser takes them, and where they come from → what the training step takes.
Prepare = Callable[[Any, Origins], Any]


class Batch(NamedTuple):
    """Prepared records; `ended` are the splits whose last record is in this batch or an earlier one."""

    inputs: Any
    size: int
    ended: tuple[Ended, ...]


class TrainingInput:
    """Iterates over `Batch` in a background thread; use it in a `with` block."""

    def __init__(
        self,
        next_split: NextSplit,
        schema: Schema,
        data: Data,
        scratch: Path,
        parser: RecordParser,
        prepare: Prepare,
    ) -> None:
        self._fetcher = SplitFetcher(next_split, scratch, OPEN_SPLITS)
        self._batcher = _Batcher(self._fetcher, schema, data, parser, prepare)
        #: How long `get` blocked while there was something to read.
        self.waited = InputWait()

    def __enter__(self) -> "TrainingInput":
        self._fetcher.start()
        self._batcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._batcher.stop()
        self._fetcher.stop()

    def get(self, timeout_s: float) -> Batch | Literal["wait", "end"]:
        """The next batch; `wait` if there was none in time, `end` when the data is over. Raises what reading raised."""
        before = self._batcher.stages.seconds()
        try:
            item = self._batcher.batches.get(timeout=timeout_s)
        except queue.Empty:
            return "wait"
        finally:
            self.waited += self._batcher.stages.seconds() - before
        if isinstance(item, BaseException):
            raise item
        return item


class _Batcher(threading.Thread):
    """Reads the fetched splits."""

    def __init__(
        self,
        fetcher: SplitFetcher,
        schema: Schema,
        data: Data,
        parser: RecordParser,
        prepare: Prepare,
    ) -> None:
        super().__init__(name="batcher", daemon=True)
        self.batches: queue.Queue[Batch | Literal["end"] | BaseException] = queue.Queue(AHEAD)
        self.stages = Stages()
        self._fetcher = fetcher
        self._schema = schema
        self._data = data
        self._bad = BadRecords(data.max_bad_records)
        self._prepare = prepare
        self._sieve = Sieve(data, parser, Judge(schema, data, self._bad, parser))
        self._open: deque[SplitReader] = deque()
        #: Files of splits that are read or wait for their last batch: a bad record is looked for in its file.
        self._files: dict[Lease, Fetched] = {}
        self._pending = Pending()
        self._unsampled = Carry()
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
            for fetched in self._files.values():
                fetched.file.discard()

    def _open_more(self) -> bool:
        """Open what was fetched. With nothing open, waits; false at the end of the data."""
        if not self._open:
            self.stages.enter("files")
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
                self.stages.enter(None)
            elif item == "end":
                self._fetcher.items.put(item)
                return True
        return True

    def _open_split(self, fetched: Fetched) -> None:
        lease, path = fetched.lease, fetched.file.path
        self._files[lease] = fetched
        if not self._checked:
            self._check_schema(path, lease)
        if self._bad.may_be and lease.skip:
            self._recount(lease, path)
        self._open.append(self._reader(lease, path, self._bad))

    def _reader(self, lease: Lease, path: Path, bad: BadRecords) -> SplitReader:
        return SplitReader(lease, path, self._data, max(1, self._data.batch_size // OPEN_SPLITS), self._schema, bad)

    def _recount(self, lease: Lease, path: Path) -> None:
        """Count what cannot be parsed among the records that are applied already, as their first reader did.

        So what a split is told to hold does not depend on how often its reader was replaced. Damaged records are not
        counted here: whoever reads a file meets them all, wherever he begins.
        """
        reader = self._reader(lease._replace(skip=0), path, BadRecords(self._data.max_bad_records, named=0))
        left = lease.skip
        while left > 0 and (block := reader.next_block()) is not None:
            piece = Piece.whole(lease, block).slice(0, left)
            left -= piece.size
            nowhere = Carry()
            self._sieve.sound(self._sieve.sample_negatives(piece, path, nowhere), path, nowhere)

    def _check_schema(self, path: Path, lease: Lease) -> None:
        # Damage is the reader's business, who has a budget for it.
        outputs = (self._schema.label, self._schema.sample_id)
        known = {*self._schema.names, *(name for name in outputs if name)}
        first = first_examples(
            str(path), self._data, PROBE_RECORDS, known, damaged=[], called=lease.url, part=lease.part
        )
        if first:
            validate_first(self._schema, first, self._data, lease.url)
            self._checked = True

    def _read_block(self) -> None:
        """One block of the split whose turn it is."""
        if not self._open:
            return
        self.stages.enter("reading")
        reader = self._open.popleft()
        block = reader.next_block()
        if block is not None:
            piece = Piece.whole(reader.lease, block)
            self._pending.add(self._sieve.sample_negatives(piece, self._path(reader.lease), self._unsampled))
            self._open.append(reader)
            return
        self._pending.add_end(self._unsampled.add_to_end(Ended(reader.lease)))
        self._fetcher.allow_next()

    def _emit(self) -> None:
        pieces, ended = self._pending.take(self._data.batch_size)
        if not pieces and not ended:
            return
        self.stages.enter("preparing")
        try:
            inputs = self._prepare_pieces(pieces)
        except tf.errors.InvalidArgumentError as error:
            good = [self._sieve.sound(piece, self._path(piece.lease), self._pending.taken) for piece in pieces]
            require_bad(pieces, good, error)
            pieces = [piece for piece in good if piece.size]
            inputs = self._prepare_pieces(pieces)
        ends = tuple(
            self._pending.taken.add_to_end(split_end)._replace(bad=self._bad.pop(split_end.lease))
            for split_end in ended
        )
        self._put(Batch(inputs, sum(piece.size for piece in pieces), ends))
        for end in ends:
            self._files.pop(end.lease).file.discard()

    def _prepare_pieces(self, pieces: list[Piece]) -> Any:
        return self._prepare(*join_pieces(pieces)) if pieces else None

    def _path(self, lease: Lease) -> Path:
        return self._files[lease].file.path

    def _put(self, item: Any) -> None:
        while not self._stop_asked.is_set():
            try:
                return self.batches.put(item, timeout=0.2)
            except queue.Full:
                continue

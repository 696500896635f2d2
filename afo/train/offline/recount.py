"""Recount of splits: read as the training does, for what an acknowledgement of each must hold. Nothing is computed."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from afo.data.io.bad_records import BadRecords
from afo.data.io.local_file import LocalFile, is_local
from afo.data.pipeline.bad_record_locator import Judge
from afo.data.pipeline.batch_fragments import Carry, Ended, Piece, as_tensors
from afo.data.pipeline.record_filter import Sieve
from afo.data.pipeline.split_reader import Lease, SplitReader
from afo.protocol.offline_task import NumberedFile, RecountedSplit
from afo.train.offline.scoring import BATCH, in_order
from afo.train.setup import JobParts


class Recount:
    """Counts the records of splits, and xors their hashed ids, in whatever order they lie."""

    def __init__(self, parts: JobParts, scratch: Path) -> None:
        self._schema, self._parser, self._scratch = parts.schema, parts.parser, scratch
        self._data = in_order(parts.job.data)
        self._bad = BadRecords(self._data.max_bad_records)
        self._sieve = Sieve(self._data, self._parser, Judge(self._schema, self._data, self._bad, self._parser))

    def splits(self, files: Iterable[NumberedFile]) -> Iterator[RecountedSplit]:
        """One after the other. Raises DataError with file and place for what the training would not have read."""
        for file in files:
            local = self._local(file)
            try:
                yield self._split(Lease(file.number, 0, file.url, part=file.part), local.path)
            finally:
                local.discard()

    def _local(self, file: NumberedFile) -> LocalFile:
        if is_local(file.url):
            return LocalFile.of(file.url)
        return LocalFile.download(file.url, self._scratch / f"recounted-{file.number}", file.part)

    def _split(self, lease: Lease, path: Path) -> RecountedSplit:
        reader = SplitReader(lease, path, self._data, BATCH, self._schema, self._bad)
        carry, count, xor = Carry(), 0, 0
        while (block := reader.next_block()) is not None:
            piece = self._sieve.sample_negatives(Piece.whole(lease, block), path, carry)
            if self._bad.may_be:
                piece = self._sieve.sound(piece, path, carry)
            if piece.size:
                identity = self._parser.outputs(as_tensors(piece.block)).identity.numpy()
                count += piece.size + int(piece.left_out.sum())
                xor ^= int(np.bitwise_xor.reduce(identity ^ piece.xor))
        ended, tally = carry.add_to_end(Ended(lease)), self._bad.pop(lease)
        return RecountedSplit(
            number=lease.split, count=count + ended.left_out, xor=(xor ^ ended.xor) % 2**64, bad=tally.bad,
            unread=tally.unread,
        )  # fmt: skip

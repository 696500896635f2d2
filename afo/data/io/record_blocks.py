"""Blocks of records of a TFRecord file, by our operation or by TensorFlow's, in an order that is fixed by a seed.

Ours reads a block at once, in a thread of its own one block ahead; TensorFlow's, for installations without our
operations, a record at a time, which takes longer. The orders are not the same: whoever goes on in a file has to read
it as it was begun, so which of them it is depends on the installation alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from afo.data.io.tfrecord import compression_of, read_records
from afo.errors import DataError
from afo.job import Data
from afo.ops import library
from afo.storage.url import ByteRange

_COMPRESSION = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}
_READ_BUFFER = 1 << 20
#: To our operation.
_WHOLE = ByteRange(0, -1)


class Order(NamedTuple):
    """Which records come when."""

    seed: int
    #: Records among which each waits until it is drawn; 1: in the file's order.
    buffer: int
    #: Records of this order that are not given.
    skip: int
    #: Records of a block; the last one of a file may be smaller.
    block: int


class RecordSource(NamedTuple):
    """A local file or a part of it; `refuse` is told of each damaged record, and None where there may be none."""

    path: str
    data: Data
    refuse: Callable[[str], None] | None
    #: Never of a compressed file.
    part: ByteRange | None = None


def record_blocks(source: RecordSource, order: Order) -> Iterator[Any]:
    """Tensors of strings [n]. Raises DataError, with the offset in the file, for what cannot be read or left out."""
    given = source.data.compression if source.part is None else "none"
    compression = compression_of(source.path) if given == "auto" else given
    operations = library.load_if_present()
    if operations is not None:
        return _by_operation(operations, source, order, compression)
    return _ByTensorflow(source, order, _COMPRESSION[compression])


def _by_operation(operations: Any, source: RecordSource, order: Order, compression: str) -> Iterator[Any]:
    tolerant = source.refuse is not None
    numbers = (order.seed, max(1, order.buffer), order.skip, order.block)
    part = source.part or _WHOLE
    file = operations.afo_open_records(source.path, *part, *numbers, compression=compression, tolerant=tolerant)
    while True:
        records, damaged, lost = operations.afo_next_records(file)
        for problem in damaged.numpy():
            assert source.refuse is not None  # a file that is not tolerant raises
            source.refuse(f"{source.path}: {problem.decode()}")
        if lost := lost.numpy().decode():
            raise DataError(f"{source.path}: {lost}")
        if not records.shape[0]:
            return
        yield records


class _ByTensorflow:
    """Iterates over blocks of TensorFlow's own reader, and of ours, a record at a time, where that finds damage."""

    def __init__(self, source: RecordSource, order: Order, compression: str) -> None:
        self._source = source
        self._order = order
        self._given = order.skip
        self._is_whole = True
        self._blocks = self._batch_records(
            tf.data.TFRecordDataset(source.path, compression, _READ_BUFFER)
            if source.part is None
            else self._by_ours(None)
        )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            block = next(self._blocks)
        except tf.errors.OpError as error:
            self._go_on_after(error)
            return next(self)
        self._given += int(block.shape[0])
        return block

    def _batch_records(self, records: Any) -> Iterator[Any]:
        """Blocks of a dataset of all good records, in the order, without those that were given already."""
        order = self._order
        if order.buffer > 1:
            records = records.shuffle(order.buffer, order.seed, reshuffle_each_iteration=False)
        return iter(records.skip(self._given).batch(order.block).prefetch(2).with_options(_options()))

    def _go_on_after(self, error: tf.errors.OpError) -> None:
        """Read on with our own slower reader, which leaves damaged records out, or raise what is wrong.

        The order stays the same: what was given so far came of the records before the damaged one.
        """
        path, data, refuse, part = self._source
        skipped: list[DataError] | None = [] if refuse is not None and self._is_whole else None
        for _ in read_records(path, data.compression, skipped, part):
            pass
        if not skipped or refuse is None:
            raise DataError(f"{path}: TensorFlow cannot read it as TFRecord: {error.message}") from error
        for damaged in skipped:
            refuse(str(damaged))
        self._is_whole = False
        self._blocks = self._batch_records(self._by_ours([]))

    def _by_ours(self, skipped: list[DataError] | None) -> Any:
        """Our own reader knows parts of files, and goes on after damaged records."""
        path, data, _, part = self._source
        return tf.data.Dataset.from_generator(
            lambda: read_records(path, data.compression, skipped, part), output_signature=tf.TensorSpec([], tf.string)
        )


def _options() -> Any:
    """No tuning and no rewriting: it takes longer than a short file, and an order must not depend on it."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.experimental_optimization.apply_default_optimizations = False
    return options

"""Columns of a table in mapped files, as tensors: for a SavedModel whose tables do not fit in memory.

They are for `tf.saved_model.save` alone: a `tf.gather` of a variable copies what others hold, too.
"""

import mmap
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import tensorflow as tf

from afo.job import RowType
from afo.storage.local import translate_errors
from afo.tables.merged_rows import MergedRows
from afo.trainable.served.stored_rows import Encoded, encode_rows, stored_type

#: Time between two looks for pages that were read. Seconds.
_LOOK_S = 0.02
_maps: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


class Columns(NamedTuple):
    """What a frozen table holds: keys, and the rows, of which the first is that of absent keys."""

    keys: Any
    rows: Encoded


def map_columns(rows: MergedRows, absent: float, kept: RowType) -> Columns:
    """Tensors over files without a name, whose room is free once nobody holds the tensors.

    Raises DataError where `kept` cannot hold the weights, StorageError where the directory takes no more.
    """
    kind = stored_type(kept, rows.dim)
    of_absent = np.full((1, rows.dim), absent, np.float32)
    with translate_errors("write rows into", str(rows.directory)), ExitStack() as stack:
        keys, values, scales = (stack.enter_context(tempfile.TemporaryFile(dir=rows.directory)) for _ in range(3))
        count = 0
        _write(encode_rows(of_absent, kind), values, scales)
        for piece in rows.pieces():
            keys.write(piece.keys.tobytes())
            _write(encode_rows(piece.weights, kind), values, scales)
            count += len(piece.keys)
        if count == 0:  # never without a key, as a table in memory
            keys.write(bytes(8))
            _write(encode_rows(of_absent, kind), values, scales)
            count = 1
        return Columns(
            _map(keys, np.dtype(np.int64), [count]),
            Encoded(
                _map_values(values, kind, [count + 1, rows.dim]),
                _map(scales, np.dtype(np.float32), [count + 1]) if kind == "int8" else None,
            ),
        )


@contextmanager
def few_pages() -> Iterator[None]:
    """While it lasts, pages of columns that were read do not stay in this process's memory, but in the kernel's."""
    over = threading.Event()

    def let_go() -> None:
        while not over.wait(_LOOK_S):
            for each in list(_maps):
                each.madvise(mmap.MADV_DONTNEED)

    thread = threading.Thread(target=let_go, name="pages")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _write(rows: Encoded, values: BinaryIO, scales: BinaryIO) -> None:
    values.write(rows.values.tobytes())
    if rows.scales is not None:
        scales.write(rows.scales.tobytes())


def _map_values(file: BinaryIO, kind: RowType, shape: list[int]) -> Any:
    if kind == "bfloat16":  # which DLPack's numpy does not know; a cast of bits shares the memory
        return tf.bitcast(_map(file, np.dtype(np.int16), shape), tf.bfloat16)
    return _map(file, np.dtype(kind), shape)


def _map(file: BinaryIO, kind: Any, shape: list[int]) -> Any:
    """A tensor over the file's bytes."""
    file.flush()
    # Private, for numpy hands no memory on that it may not write; nobody does.
    mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    _maps.add(mapped)
    return tf.experimental.dlpack.from_dlpack(np.frombuffer(mapped, kind).reshape(shape).__dlpack__())

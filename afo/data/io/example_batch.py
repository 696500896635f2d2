"""Many `tf.Example` records at once from columns of integers and real numbers, without a Python loop over records.

All records of a batch share one layout: the same features in the same order, where only the varints of integers differ
in length. So the batch is laid out as a matrix with room for the longest varint in every place, and the bytes that a
record does not use are masked out.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from afo.errors import DataError

Column = NDArray[np.int64] | NDArray[np.float32]
_Bytes = NDArray[np.uint8]
_Mask = NDArray[np.bool_]

#: A part of the records: bytes [n, width], which of them are used (None: all), and the used length [n] or for all.
_Part = tuple[_Bytes, _Mask | None, NDArray[np.int64]]

_INT64_LIST, _FLOAT_LIST = 3, 2


def encode_columns(columns: Mapping[str, Column]) -> list[bytes]:
    """Serialized `tf.Example` records of columns by feature name.

    Each column is int64 or float32, [n] or [n, k] for k values a record. Raises DataError for other types and for
    columns of unequal length.
    """
    rows = {len(column) for column in columns.values()}
    if len(rows) != 1:
        raise DataError(f"columns must be equally long, given lengths {sorted(rows)}")
    count = rows.pop()
    if count == 0:
        return []
    entries = [_entry(name, column, count) for name, column in sorted(columns.items())]
    return _split(_add_prefix(0x0A, _join_parts(entries), count))


def _entry(name: str, column: Column, count: int) -> _Part:
    """`feature` entries: tag 1 { key = 1: name, value = 2: Feature { list = kind: { value = 1: packed } } }."""
    values = column.reshape(count, -1)
    if values.dtype == np.int64:
        kind, packed = _INT64_LIST, _varints(values.view(np.uint64))
    elif values.dtype == np.float32:
        little = np.ascontiguousarray(values.astype("<f4"))
        kind, packed = _FLOAT_LIST, _whole(little.view(np.uint8).reshape(count, -1))
    else:
        raise DataError(f"feature `{name}`: columns are int64 or float32, given {values.dtype}")
    key = name.encode()
    listed = _add_prefix(0x0A, packed, count)
    value = _add_prefix(0x12, _add_prefix(kind << 3 | 2, listed, count), count)
    head = np.frombuffer(b"\x0a" + _varint(len(key)) + key, np.uint8)
    return _add_prefix(0x0A, _join_parts([_whole(np.broadcast_to(head, (count, head.size))), value]), count)


def _add_prefix(tag: int, body: _Part, count: int) -> _Part:
    """The body behind its tag and length."""
    tags = _whole(np.full((count, 1), tag, np.uint8))
    return _join_parts([tags, _varints(body[2].view(np.uint64)[:, None]), body])


def _join_parts(parts: list[_Part]) -> _Part:
    lengths = np.sum([part[2] for part in parts], axis=0)
    data = np.concatenate([part[0] for part in parts], axis=1)
    if all(part[1] is None for part in parts):
        return data, None, lengths
    masks = [np.ones(part[0].shape, np.bool_) if part[1] is None else part[1] for part in parts]
    return data, np.concatenate(masks, axis=1), lengths


def _whole(data: _Bytes) -> _Part:
    return data, None, np.full(len(data), data.shape[1], np.int64)


def _varints(values: NDArray[np.uint64]) -> _Part:
    """Base-128 varints of values [n, k]; a negative int64, seen as uint64, takes ten bytes as protobuf wants it."""
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = values[:, :, None] >> shifts
    used = groups > 0
    used[:, :, 0] = True
    more = np.zeros(used.shape, np.uint8)
    more[:, :, :-1] = used[:, :, 1:]
    data: _Bytes = (groups & np.uint64(0x7F)).astype(np.uint8) | (more << np.uint8(7))
    flat: _Bytes = data.reshape(len(values), -1)
    if used.all():
        return _whole(flat)
    mask = used.reshape(len(values), -1)
    return flat, mask, mask.sum(axis=1, dtype=np.int64)


def _varint(value: int) -> bytes:
    data, _, _ = _varints(np.array([[value]], np.uint64))
    return data.tobytes()


def _split(batch: _Part) -> list[bytes]:
    data, mask, lengths = batch
    packed = (data if mask is None else data[mask]).tobytes()
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends[:-1]]
    return [packed[start:end] for start, end in zip(starts, ends, strict=True)]

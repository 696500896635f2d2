"""Arrays that become tensors without a copy: TensorFlow computes on memory that begins at a multiple of 64 bytes."""

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: What TensorFlow's kernels rely on (EIGEN_MAX_ALIGN_BYTES).
ALIGNMENT = 64


def empty(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An array of whatever was in its memory, of numbers at a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    if kind.hasobject:
        return np.empty(shape, kind)
    size = prod(shape) * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -_address(memory) % ALIGNMENT
    return memory[start : start + size].view(kind).reshape(shape)


def take_rows(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """The rows of these numbers, each of which there must be."""
    # With a mode that raises numpy would fill an array of its own first.
    return np.take(values, rows, axis=0, out=empty((len(rows), *values.shape[1:]), values.dtype), mode="clip")


def fill_array(shape: Sequence[int], value: float, dtype: DTypeLike) -> NDArray[Any]:
    """This value everywhere."""
    values = empty(shape, dtype)
    values.fill(value)
    return values


def concatenate(parts: Sequence[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """One behind the other along an axis."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return np.concatenate(parts, axis, out=empty(shape, parts[0].dtype))


def as_tensor(values: NDArray[Any]) -> Any:
    """A tensor on the memory of `values` where that will do, else with a copy. Nobody may write into it any more.

    TensorFlow never writes into memory that it does not own, and keeps `values` as long as it needs it.
    """
    import tensorflow as tf

    flags = values.flags
    # DLPack has no word for memory that is read-only, nor for strings; TensorFlow takes it at any address, and crashes.
    plain = flags.writeable and flags.c_contiguous and values.size and not values.dtype.hasobject
    if not plain or _address(values) % ALIGNMENT:
        return tf.convert_to_tensor(values)
    return tf.experimental.dlpack.from_dlpack(values.__dlpack__())


def _address(values: NDArray[Any]) -> int:
    """Of an array that can be written to; a quarter of the time that numpy takes to tell."""
    return ctypes.addressof(ctypes.c_char.from_buffer(values.data))

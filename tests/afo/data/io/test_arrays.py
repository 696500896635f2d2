"""Arrays that become tensors without a copy, and those that cannot."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.data.io import arrays

DTYPES = [np.int64, np.float32, object]


def address(values: Any) -> int:
    return int(values.__array_interface__["data"][0])


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 3), st.sampled_from(DTYPES))
def test_pieces_are_joined_and_rows_drawn_into_aligned_memory(sizes: list[int], width: int, kind: Any) -> None:
    whole = np.arange(sum(sizes) * width).reshape(-1, width).astype(kind)
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    joined = arrays.concatenate(parts)
    assert joined.dtype == whole.dtype
    assert joined.tolist() == whole.tolist()
    rows = np.arange(len(whole))[::-2]
    drawn = arrays.take_rows(joined, rows)
    assert drawn.tolist() == whole[rows].tolist()
    if kind is not object and len(whole):
        assert [address(each) % arrays.ALIGNMENT for each in (joined, drawn)] == [0, 0]


def test_columns_are_joined_beside_each_other() -> None:
    columns = [arrays.fill_array((3, 1), value, np.float32) for value in (1, 2)]
    assert arrays.concatenate(columns, axis=1).tolist() == [[1, 2]] * 3


tf = pytest.importorskip("tensorflow")


def shares_memory(values: Any) -> bool:
    """Whether a tensor of them sees what is written into them afterwards."""
    tensor = arrays.as_tensor(values)
    values[...] = 77
    return bool((tensor.numpy() == 77).all())


@pytest.mark.tensorflow
def test_aligned_numbers_are_not_copied_and_others_are() -> None:
    values = arrays.fill_array((64, 1), 1, np.int64)
    assert shares_memory(values)
    assert shares_memory(values[8:16])
    assert not shares_memory(arrays.fill_array((64, 1), 1, np.int64)[1:9])
    assert not shares_memory(arrays.fill_array((64, 2), 1, np.float32)[:, 1:])


@pytest.mark.tensorflow
def test_tensorflow_does_not_write_into_the_memory() -> None:
    values = arrays.fill_array((1000,), 1, np.float32)
    # A kernel may compute in the memory of an input that nobody else needs, if TensorFlow owns it.
    results = [tf.exp(arrays.as_tensor(values)), tf.function(lambda x: tf.exp(x) + 1)(arrays.as_tensor(values))]
    assert all((each.numpy() != 1).all() for each in results)
    assert (values == 1).all()


@pytest.mark.tensorflow
@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from(DTYPES), st.booleans())
def test_any_rows_are_the_same_in_a_tensor(start: int, count: int, kind: Any, locked: bool) -> None:
    values = arrays.concatenate([np.arange(80).reshape(-1, 1).astype(kind)])
    if kind is object:
        values = np.array([[str(each).encode()] for each in range(80)], object)
    values.flags.writeable = not locked
    part = values[start : start + count]
    tensor = arrays.as_tensor(part)
    del values
    assert tensor.shape == part.shape
    assert tensor.numpy().tolist() == part.tolist()

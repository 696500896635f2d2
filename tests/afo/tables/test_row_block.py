"""Blocks of rows in numpy: the same bytes as the engine's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afo.errors import DataError
from afo.tables import row_block
from afo.tables.row_block import RowBlock

KEYS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def blocks(draw: st.DrawFn) -> RowBlock:
    rows, floats = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    values = draw(arrays(np.float32, (rows, floats), elements=st.floats(width=32)))
    counts = arrays(np.uint32, rows)
    keys = draw(arrays(np.int64, rows, elements=KEYS))
    return RowBlock(draw(arrays(np.int64, st.integers(0, 4), elements=KEYS)), keys, draw(counts), draw(counts), values)


@given(blocks())
def test_what_is_written_is_read(block: RowBlock) -> None:
    found = row_block.decode(row_block.encode(block), "file")
    for own, theirs in zip(found, block, strict=True):
        np.testing.assert_array_equal(own, theirs)


@given(blocks(), st.data())
def test_any_changed_byte_and_any_cut_are_found(block: RowBlock, data: st.DataObject) -> None:
    content = bytearray(row_block.encode(block))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DataError, match=r"^file is damaged"):
        row_block.decode(bytes(content), "file")
    with pytest.raises(DataError, match=r"^file is damaged"):
        row_block.decode(row_block.encode(block)[:at], "file")


@given(st.binary(max_size=200))
def test_other_bytes_are_no_block(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^file is damaged"):
        row_block.decode(content, "file")


@given(blocks())
def test_weights_alone(block: RowBlock) -> None:
    found = row_block.decode(row_block.weights_only(block, 1), "file")
    np.testing.assert_array_equal(found.values, block.values[:, :1])
    np.testing.assert_array_equal(found.steps, block.steps)

"""Pieces of a Parquet file's arrays become the same batches as pieces of tensors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tensorflow")

from afo.data.pipeline.batch_fragments import Carry, Ended, Pending, Piece, as_tensors, filter_records, join_pieces
from afo.data.pipeline.split_reader import Lease

pytestmark = pytest.mark.tensorflow


def block(first: int, rows: int) -> dict[str, Any]:
    ids = np.arange(first, first + rows, dtype=np.int64)
    words = np.array([b"word %d" % each for each in ids] or [], object)
    return {"ids": ids, "pairs": np.stack([ids, -ids], axis=1).astype(np.float32), "words": words}


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 70), min_size=1, max_size=5), most=st.integers(1, 90))
def test_batches_of_arrays_are_those_of_tensors(sizes: list[int], most: int) -> None:
    pending = Pending(), Pending()
    for row, size in enumerate(sizes):
        values = block(100 * row, size)
        for each, content in zip(pending, (values, as_tensors(values)), strict=True):
            each.add(Piece.whole(Lease(row, 0, "u"), content))
            each.add_end(Ended(Lease(row, 0, "u")))
    rows: list[int] = []
    while pending[0].size:
        batches = [join_pieces(each.take(most)[0]) for each in pending]
        for name in ("ids", "pairs", "words"):
            of_arrays, of_tensors = (batch[0][name].numpy() for batch in batches)
            np.testing.assert_array_equal(of_arrays, of_tensors)
        np.testing.assert_array_equal(batches[0][1].files, batches[1][1].files)
        rows += batches[0][0]["ids"].numpy().tolist()
    assert rows == [100 * row + each for row, size in enumerate(sizes) for each in range(size)]


def test_a_part_of_arrays_is_no_copy() -> None:
    whole = Piece.whole(Lease(0, 0, "u"), block(0, 50))
    part = whole.slice(10, 30)
    assert all(np.shares_memory(part.block[name], whole.block[name]) for name in whole.block)


def test_rows_that_are_left_out_are_left_out_of_arrays_too() -> None:
    keep = np.arange(20) % 3 == 0
    identity = np.arange(20, dtype=np.int64)
    values = block(0, 20)
    found = [
        filter_records(Piece.whole(Lease(0, 0, "u"), content), keep, identity, Carry())
        for content in (values, as_tensors(values))
    ]
    np.testing.assert_array_equal(found[0].block["words"], found[1].block["words"].numpy())
    assert found[0].block["ids"].tolist() == identity[keep].tolist() == found[1].block["ids"].numpy().tolist()
    assert found[0].left_out.tolist() == found[1].left_out.tolist()

"""Hash tables that are only read, against a dictionary."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.errors import DataError  # noqa: E402
from afo.job import RowType  # noqa: E402
from afo.tables.saved_tables import Rows  # noqa: E402
from afo.trainable.served.frozen_table import FrozenTable  # noqa: E402
from afo.trainable.served.stored_rows import StoredRows, stored_type  # noqa: E402

pytestmark = pytest.mark.tensorflow

KEYS = st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 7, 2**40, 2**63 - 1])


def rows_of(held: dict[int, float]) -> Rows:
    keys = np.array(sorted(held), np.int64)
    return Rows(keys, np.array([[held[key], -held[key]] for key in keys.tolist()], np.float32).reshape(-1, 2))


def expected(held: dict[int, float], asked: list[int]) -> Any:
    return np.array([[held.get(key, 0.0), -held.get(key, 0.0)] for key in asked], np.float32).reshape(-1, 2)


@given(st.lists(st.dictionaries(KEYS, st.integers(1, 9).map(float)), min_size=1, max_size=3), st.lists(KEYS))
@settings(deadline=None, max_examples=50)
def test_what_is_there_is_found_and_all_else_is_zero(tables: list[dict[int, float]], asked: list[int]) -> None:
    table = FrozenTable(rows_of(tables[0]))
    lookup = tf.function(table.lookup, input_signature=[tf.TensorSpec([None], tf.int64)])
    for number, held in enumerate(tables):
        if number:
            table.load(rows_of(held))
        np.testing.assert_array_equal(lookup(np.array(asked, np.int64)), expected(held, asked))


def test_ids_of_any_shape_have_rows_of_that_shape() -> None:
    table = FrozenTable(rows_of({3: 1.0, 4: 2.0}))
    assert table.lookup(tf.constant([[3, 4, 5], [4, 4, 3]], tf.int64)).numpy()[..., 0].tolist() == [
        [1.0, 2.0, 0.0], [2.0, 2.0, 1.0],
    ]  # fmt: skip


@pytest.mark.parametrize("kept", ["float32", "bfloat16", "int8"])
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(-30, 30))
@settings(deadline=None, max_examples=40)
def test_a_weight_is_off_by_no_more_than_its_format_allows(kept: RowType, dim: int, seed: int, exponent: float) -> None:
    random = np.random.default_rng(seed)
    weights = (random.normal(size=(7, dim)) * 10.0**exponent).astype(np.float32)
    weights[3] = 0.0
    found = StoredRows(weights, kept).lookup(tf.range(7)).numpy()
    allowed = {
        "float32": np.zeros_like(weights),
        "bfloat16": np.abs(weights) * 2.0**-8,
        # A little more: the division by the scale and the product with it are rounded as well.
        "int8": np.abs(weights).max(axis=1, keepdims=True) / 254 * (1 + 1e-4) + np.zeros_like(weights),
    }[stored_type(kept, dim)]
    assert (np.abs(found - weights) <= allowed).all()


def test_a_row_too_small_for_a_scale_is_zeros_and_one_at_the_end_of_float32_is_not_lost() -> None:
    weights = np.array([[1e-45] * 5, [3.4e38, -3.4e38, 1e38, 0, 0]], np.float32)
    found = StoredRows(weights, "int8").lookup(tf.range(2)).numpy()
    assert np.isfinite(found).all()
    assert np.abs(found[0]).max() <= 2e-45
    np.testing.assert_allclose(found[1], weights[1], rtol=0, atol=3.4e38 / 253)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_weights_that_are_not_finite_have_no_scale(broken: float) -> None:
    with pytest.raises(DataError, match="not finite: int8 cannot; use `rows: float32`"):
        StoredRows(np.full((2, 8), broken, np.float32), "int8")


@pytest.mark.parametrize(
    ("dim", "kept", "bytes_a_row"),
    [(8, "float32", 32), (8, "bfloat16", 16), (8, "int8", 12), (4, "int8", 8), (1, "int8", 2), (5, "int8", 9)],
)
def test_rows_take_the_bytes_of_their_type(dim: int, kept: RowType, bytes_a_row: int) -> None:
    table = StoredRows(np.ones((1000, dim), np.float32), kept)
    assert sum(each.dtype.size * each.shape.num_elements() for each in map(tf.convert_to_tensor, table.variables)) == (
        1000 * bytes_a_row
    )
    table.load(np.full((3, dim), 2.0, np.float32))
    assert table.lookup([2, 0]).numpy().tolist() == [[2.0] * dim] * 2

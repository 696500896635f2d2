"""Hash tables that are only read, against a dictionary."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.embedding.saved_tables import Rows  # noqa: E402
from afo.train.frozen_table import FrozenTable  # noqa: E402

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

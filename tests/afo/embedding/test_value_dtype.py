"""Tables whose weights are bfloat16 on the servers: in less memory, and float32 to all who ask."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.embedding.checkpoint import TableSaver, restore  # noqa: E402
from afo.errors import SpecError  # noqa: E402
from afo.tables.saved_tables import read_rows  # noqa: E402

pytestmark = pytest.mark.tensorflow

Factory = Callable[..., Any]
KEYS = np.arange(-400, 400) * 7919


def variable(group: Any, kind: Any) -> Any:
    rule = embedding.Adam(learning_rate=0.01)
    return embedding.get_embedding_variable("user", 16, optimizer=rule, seed=1, group=group, value_dtype=kind)


def step(of: Any, number: int) -> float:
    """Towards ones; the loss before."""
    with embedding.EmbeddingTape() as tape:
        loss = tf.reduce_mean(tf.square(embedding.embedding_lookup(of, KEYS) - 1))
    tape.gradient(loss)
    tape.apply(step=number)
    return float(loss)


def rounded(values: Any) -> Any:
    return tf.cast(tf.cast(values, tf.bfloat16), tf.float32).numpy()


def test_weights_of_bfloat16_learn_as_those_of_float32_in_less_memory(new_group: Factory) -> None:
    exact, narrow = (variable(new_group(2), kind) for kind in (tf.float32, tf.bfloat16))
    first = embedding.embedding_lookup(exact, KEYS).numpy()
    np.testing.assert_array_equal(embedding.embedding_lookup(narrow, KEYS), rounded(first))
    losses = np.array([[step(each, number) for each in (exact, narrow)] for number in range(40)])
    assert losses[-1, 0] < losses[0, 0] / 2
    # A step is 0.01, and what is between 1 and the next number 0.004 to 0.008.
    np.testing.assert_allclose(losses[:, 1], losses[:, 0], rtol=0.01)
    found = embedding.embedding_lookup(narrow, KEYS)
    assert found.dtype == tf.float32
    np.testing.assert_array_equal(found, rounded(found))
    # 176 bytes a row in place of 208.
    assert narrow.memory_bytes() < exact.memory_bytes()


@pytest.mark.parametrize(("before", "after"), [(tf.float32, tf.bfloat16), (tf.bfloat16, tf.float32)])
def test_a_checkpoint_of_either_is_restored_by_the_other(
    new_group: Factory, tmp_path: Path, before: Any, after: Any
) -> None:
    old, new = variable(new_group(2), before), variable(new_group(3), after)
    for number in range(3):
        step(old, number)
    saver = TableSaver(old.group)
    saver.save(str(tmp_path / "0"))
    step(old, 3)
    url = saver.save(str(tmp_path / "1"), incremental=True)
    assert restore(new.group, url) == 2 * len(KEYS)  # of the checkpoint and of what changed since
    was = embedding.embedding_lookup(old, KEYS).numpy()
    kept = rounded(was)
    np.testing.assert_array_equal(embedding.embedding_lookup(new, KEYS), kept)
    keys, values = read_rows(url)["user"]
    np.testing.assert_array_equal(keys, np.sort(KEYS))
    np.testing.assert_array_equal(values, was[np.argsort(KEYS)])
    # Slots and Adam's powers were there, too.
    assert step(new, 4) == pytest.approx(step(old, 4), rel=1e-3)


def test_weights_of_another_type_are_refused() -> None:
    with pytest.raises(SpecError, match=r"`user`: value_dtype is float16; use tf\.float32 or"):
        variable(None, tf.float16)

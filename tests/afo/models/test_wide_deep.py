"""The model's formula against numpy."""

import dataclasses
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.data.feature import Feature  # noqa: E402
from afo.data.schema import Schema  # noqa: E402
from afo.job import Embedding, Model, Wide  # noqa: E402
from afo.models import wide_deep  # noqa: E402
from afo.models.feature_layout import layout_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

LAYOUT = layout_of(
    Schema(
        features=(
            Feature(name="a", kind="categorical"),
            Feature(name="b", kind="categorical", shape=(2,)),
            Feature(name="x", kind="dense"),
        )
    ),
    Model(hidden_units=(5, 3), embedding=Embedding(dim=2, hash_buckets=10)),
)


def test_log_odds_are_wide_plus_deep() -> None:
    generator = np.random.default_rng(1)
    embeddings, wide, dense = (generator.normal(size=shape).astype(np.float32) for shape in ((4, 3, 2), (4, 3), (4, 1)))
    vector = generator.normal(size=LAYOUT.dense_size).astype(np.float32)
    found = wide_deep.logits(LAYOUT, *(tf.constant(each) for each in (embeddings, wide, dense, vector)))
    weights = {each.name: vector[each.offset : each.offset + each.size].reshape(each.shape) for each in LAYOUT.weights}
    hidden = np.hstack([embeddings[:, 0], embeddings[:, 1:].mean(axis=1), dense])
    for layer in ("layer0", "layer1"):
        hidden = np.maximum(hidden @ weights[f"{layer}/kernel"] + weights[f"{layer}/bias"], 0)
    expected = weights["bias"] + wide.sum(axis=1) + (hidden @ weights["output/kernel"])[:, 0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_layers_compute_in_bfloat16_and_nothing_else_does() -> None:
    layout = dataclasses.replace(LAYOUT, precision="bfloat16")
    generator = np.random.default_rng(1)
    shapes = ((4, 3, 2), (4, 3), (4, 1), (LAYOUT.dense_size,))
    arguments = [tf.constant(generator.normal(size=shape), tf.float32) for shape in shapes]

    @tf.function
    def both(*given: Any) -> Any:
        """Log odds, and their gradient with regard to the dense weights."""
        with tf.GradientTape() as tape:
            tape.watch(given[3])
            found = wide_deep.logits(layout, *given)
        return found, tape.gradient(found, given[3])

    found, slope = both(*arguments)
    assert found.dtype == slope.dtype == tf.float32
    np.testing.assert_allclose(found, wide_deep.logits(LAYOUT, *arguments), rtol=0.05, atol=0.05)
    operations = both.get_concrete_function(*arguments).graph.get_operations()
    # Of three layers: forward, and backward for kernels and what they multiply, the first one's inputs excepted.
    assert [each.outputs[0].dtype for each in operations if each.type == "MatMul"] == [tf.bfloat16] * 8


def test_a_list_counts_with_its_shares_in_both_parts() -> None:
    schema = Schema(
        features=(
            Feature(name="a", kind="categorical"),
            Feature(name="b", kind="categorical"),
            Feature(name="l", kind="categorical", max_length=2),
        )
    )
    model = Model(
        hidden_units=(3,),
        embedding=Embedding(dim=2, hash_buckets=10),
        wide=Wide(crosses=(("a", "b"),), cross_buckets=5),
    )
    layout = layout_of(schema, model)
    generator = np.random.default_rng(3)
    embeddings, wide = generator.normal(size=(1, 4, 2)), generator.normal(size=(1, 5))
    vector = generator.normal(size=layout.dense_size)
    shares = np.array([[1, 1, 0.25, 0.75]])
    arguments = (embeddings, wide, np.zeros((1, 0)), vector, shares)
    found = wide_deep.logits(layout, *(tf.constant(each, tf.float32) for each in arguments))
    weights = {each.name: vector[each.offset : each.offset + each.size].reshape(each.shape) for each in layout.weights}
    pooled = 0.25 * embeddings[:, 2] + 0.75 * embeddings[:, 3]
    hidden = np.hstack([embeddings[:, 0], embeddings[:, 1], pooled])
    hidden = np.maximum(hidden @ weights["layer0/kernel"] + weights["layer0/bias"], 0)
    linear = wide[0, 0] + wide[0, 1] + 0.25 * wide[0, 2] + 0.75 * wide[0, 3] + wide[0, 4]
    expected = weights["bias"] + linear + (hidden @ weights["output/kernel"])[:, 0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_standardised_by_sums_over_batches() -> None:
    generator = np.random.default_rng(2)
    values = (generator.normal(size=(300, 2)) * [3, 1000] + [50, -7]).astype(np.float32)
    statistics = sum(wide_deep.batch_statistics(tf.constant(part)) for part in np.split(values, 3))
    found = wide_deep.standardise(tf.constant(values), statistics).numpy()
    np.testing.assert_allclose(found, (values - values.mean(axis=0)) / values.std(axis=0), atol=1e-3)


def test_a_constant_or_absent_dense_value_is_harmless() -> None:
    constant = tf.fill([10, 1], 3.0)
    assert np.abs(wide_deep.standardise(constant, wide_deep.batch_statistics(constant)).numpy()).max() < 1e-3
    assert wide_deep.batch_statistics(tf.zeros([10, 0])).shape == (3, 0)
    assert np.isfinite(wide_deep.standardise(constant, tf.zeros([3, 1], tf.float64)).numpy()).all()


def test_first_weights_depend_on_the_seed_alone() -> None:
    one, same, other = (wide_deep.initial_vector(LAYOUT, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert one[0] == 0, "the bias starts at zero"

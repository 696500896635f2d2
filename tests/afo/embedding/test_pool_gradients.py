"""Gradients of gradients through the pooling of rows, against TensorFlow's own on the same rows."""

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo import embedding  # noqa: E402
from afo.embedding.exchange import Exchange, Run, unique_keys  # noqa: E402
from afo.errors import Unsupported  # noqa: E402
from afo.job import Sgd  # noqa: E402

pytestmark = pytest.mark.tensorflow

IDS = np.array([4, 7, 4, 9, 1, 1, 30, 7, 2], np.int64)
BAGS = np.array([0, 3, 7, 7, 9], np.int64)
WEIGHTS = np.random.default_rng(3).uniform(0.5, 2.0, len(IDS)).astype(np.float32)


def exchange_of(group: Any, weights: Any, combiner: str, max_norm: float | None = None) -> Exchange:
    keys = unique_keys([tf.constant(IDS)], [0], group.slots)
    runs = [Run(0, tf.constant(BAGS), weights, combiner, max_norm)]
    exchange = Exchange(group, [0], keys, runs, insert=True)
    group.as_servers.pull([exchange])
    return exchange


def order_of(exchange: Exchange, width: int) -> Any:
    """The rows of the ids, out of what the servers answered."""
    keys = tf.concat([keys for keys, _, _ in exchange._there.values()], axis=0).numpy().tolist()
    rows = tf.reshape(tf.concat(exchange.values, axis=0), [-1, width])
    return tf.gather(rows, [keys.index(number) for number in IDS])


def pooled_by_tensorflow(rows: Any, weights: Any, combiner: str) -> Any:
    samples = tf.repeat(tf.range(len(BAGS) - 1), BAGS[1:] - BAGS[:-1])
    sums = tf.math.unsorted_segment_sum(rows * weights[:, tf.newaxis], samples, len(BAGS) - 1)
    power = {"sum": 0, "mean": 1, "sqrtn": 2}[combiner]
    if not power:
        return sums
    total = tf.math.unsorted_segment_sum(weights**power, samples, len(BAGS) - 1) ** (1 / power)
    return tf.math.divide_no_nan(sums, total[:, tf.newaxis])


@pytest.fixture
def group(new_group: Any) -> Any:
    made = new_group(2)
    variable = embedding.get_embedding_variable("v", 3, optimizer=Sgd(learning_rate=0.5), seed=2, group=made)
    embedding.embedding_lookup(variable, IDS)
    return made


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_penalty_on_the_gradient_of_the_rows(group: Any, combiner: str, weighted: bool) -> None:
    weights, scale = tf.Variable(WEIGHTS), tf.constant(np.random.default_rng(1).normal(size=(4, 3)), tf.float32)
    found = []
    for own in (True, False):
        with tf.GradientTape() as outer:
            factors = tf.identity(weights) if weighted else tf.ones_like(weights)
            exchange = exchange_of(group, factors if weighted else None, combiner)
            outer.watch(exchange.values)
            with tf.GradientTape() as inner:
                inner.watch(exchange.values)
                pooled = exchange.pool()[0] if own else pooled_by_tensorflow(order_of(exchange, 3), factors, combiner)
                loss = tf.reduce_sum(scale * pooled**3)
            penalty = tf.add_n([tf.reduce_sum(each**2) for each in inner.gradient(loss, exchange.values)])
        values, of_weights = outer.gradient(penalty, [exchange.values, weights])
        found.append([tf.concat(values, axis=0), *([of_weights] if weighted else [])])
    for ours, theirs in zip(*found, strict=True):
        assert np.abs(theirs).max() > 0.01
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_a_penalty_on_the_gradient_of_the_weights_of_a_sum(group: Any) -> None:
    weights, scale = tf.Variable(WEIGHTS), tf.constant(np.random.default_rng(1).normal(size=(4, 3)), tf.float32)
    found = []
    for own in (True, False):
        with tf.GradientTape() as outer:
            factors = tf.identity(weights)
            exchange = exchange_of(group, factors, "sum")
            outer.watch(exchange.values)
            with tf.GradientTape() as inner:
                inner.watch(factors)
                # The bags' weights are those that the tape watches.
                exchange._runs[0] = exchange._runs[0]._replace(weights=factors)
                pooled = exchange.pool()[0] if own else pooled_by_tensorflow(order_of(exchange, 3), factors, "sum")
                loss = tf.reduce_sum(scale * pooled**2)
            penalty = tf.reduce_sum(inner.gradient(loss, factors) ** 2)
        values, of_weights = outer.gradient(penalty, [exchange.values, weights])
        found.append([tf.concat(values, axis=0), of_weights])
    for ours, theirs in zip(*found, strict=True):
        assert np.abs(theirs).max() > 0.01
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("combiner", "max_norm", "source", "sentence"),
    [("mean", None, "weights", "for the combiner `sum` alone"), ("sum", 0.3, "values", "with `max_norm` is not there")],
)
def test_what_has_no_second_derivative_says_so(
    group: Any, combiner: str, max_norm: float | None, source: str, sentence: str
) -> None:
    with tf.GradientTape() as outer:
        weights = tf.constant(WEIGHTS)
        outer.watch(weights)
        exchange = exchange_of(group, weights, combiner, max_norm)
        outer.watch(exchange.values)
        with tf.GradientTape() as inner:
            inner.watch([weights, exchange.values])
            loss = tf.reduce_sum(exchange.pool()[0] ** 2)
        of = weights if source == "weights" else exchange.values[0]
        penalty = tf.reduce_sum(inner.gradient(loss, of) ** 2)
    with pytest.raises(Unsupported, match=sentence):
        outer.gradient(penalty, [exchange.values])

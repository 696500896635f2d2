"""Every update rule against its formula in numpy and against Keras' own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402

from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd  # noqa: E402
from afo.optimizers import Rule, rule_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

CHOICES = {
    "adagrad": OptimizerChoice(adagrad=Adagrad(learning_rate=0.3, initial_accumulator=0.2)),
    "adagrad with epsilon": OptimizerChoice(adagrad=Adagrad(learning_rate=0.3, initial_accumulator=0.2, epsilon=0.05)),
    "adam": OptimizerChoice(adam=Adam(learning_rate=0.3, beta_1=0.8, beta_2=0.9, epsilon=1e-3)),
    "ftrl": OptimizerChoice(ftrl=Ftrl(learning_rate=0.3, l1=0.02, l2=0.1, initial_accumulator=0.2)),
    "adamw": OptimizerChoice(adamw=AdamW(learning_rate=0.3, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.2)),
    "momentum": OptimizerChoice(momentum=Momentum(learning_rate=0.3, momentum=0.7)),
    "nesterov": OptimizerChoice(momentum=Momentum(learning_rate=0.3, momentum=0.7, nesterov=True)),
    "rmsprop": OptimizerChoice(rmsprop=RMSprop(learning_rate=0.3, rho=0.7, epsilon=1e-3)),
    "sgd": OptimizerChoice(sgd=Sgd(learning_rate=0.3)),
}


def adagrad(state: list[Any], g: Any, rate: float) -> None:
    w, n = state
    n += g**2
    w -= 0.3 * rate * g / np.sqrt(n)


def adagrad_with_epsilon(state: list[Any], g: Any, rate: float) -> None:
    w, n = state
    n += g**2
    w -= 0.3 * rate * g / (np.sqrt(n) + 0.05)


def adam(state: list[Any], g: Any, rate: float) -> None:
    w, m, v, t = state
    t += 1
    m[...] = 0.8 * m + 0.2 * g
    v[...] = 0.9 * v + 0.1 * g**2
    corrected = t.reshape(t.shape + (1,) * (w.ndim - 1))
    w -= 0.3 * rate * np.sqrt(1 - 0.9**corrected) / (1 - 0.8**corrected) * m / (np.sqrt(v) + 1e-3)


def ftrl(state: list[Any], g: Any, rate: float) -> None:
    w, n, z = state
    grown = n + g**2
    z += rate * g - (np.sqrt(grown) - np.sqrt(n)) / 0.3 * w
    n[...] = grown
    w[...] = np.where(np.abs(z) <= 0.02, 0, (np.sign(z) * 0.02 - z) / (np.sqrt(n) / 0.3 + 0.2))


def sgd(state: list[Any], g: Any, rate: float) -> None:
    state[0] -= 0.3 * rate * g


def adamw(state: list[Any], g: Any, rate: float) -> None:
    state[0] -= 0.3 * rate * 0.2 * state[0]
    adam(state, g, rate)


def momentum(state: list[Any], g: Any, rate: float) -> None:
    w, v = state
    v[...] = 0.7 * v - 0.3 * rate * g
    w += v


def nesterov(state: list[Any], g: Any, rate: float) -> None:
    w, v = state
    v[...] = 0.7 * v - 0.3 * rate * g
    w += 0.7 * v - 0.3 * rate * g


def rmsprop(state: list[Any], g: Any, rate: float) -> None:
    w, v = state
    v[...] = 0.7 * v + (1 - 0.7) * g**2
    w -= 0.3 * rate * g / np.sqrt(v + 1e-3)


REFERENCE = {
    "adagrad": adagrad, "adagrad with epsilon": adagrad_with_epsilon, "adam": adam, "adamw": adamw, "ftrl": ftrl,
    "momentum": momentum, "nesterov": nesterov, "rmsprop": rmsprop, "sgd": sgd,
}  # fmt: skip


#: Keras' optimizers of the same options; FTRL begins as ours where the first weights are zero.
KERAS: dict[str, Callable[[], Any]] = {
    "adagrad": lambda: keras.optimizers.Adagrad(0.3, initial_accumulator_value=0.2, epsilon=1e-12),
    "adam": lambda: keras.optimizers.Adam(0.3, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
    "adamw": lambda: keras.optimizers.AdamW(0.3, 0.2, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
    "momentum": lambda: keras.optimizers.SGD(0.3, momentum=0.7),
    "nesterov": lambda: keras.optimizers.SGD(0.3, momentum=0.7, nesterov=True),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.3, rho=0.7, epsilon=1e-3),
    "ftrl": lambda: keras.optimizers.Ftrl(
        0.3, initial_accumulator_value=0.2, l1_regularization_strength=0.02, l2_regularization_strength=0.1
    ),
    "sgd": lambda: keras.optimizers.SGD(0.3),
}


def variables(rule: Rule, weights: Any) -> list[Any]:
    return [tf.Variable(value) for value in (tf.constant(weights), *rule.initial(tf.constant(weights)))]


def handles(state: list[Any]) -> tuple[Any, ...]:
    return tuple(slot.handle for slot in state[1:])


def assert_same(state: list[Any], expected: list[Any]) -> None:
    for found, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("rate", [1.0, 0.25])
@pytest.mark.parametrize("name", CHOICES)
def test_dense_updates_follow_the_formula(name: str, rate: float) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(1)
    state = variables(rule, generator.normal(size=(7,)).astype(np.float32))
    expected = [each.numpy().astype(np.float64) for each in state]
    for _ in range(5):
        gradient = generator.normal(size=(7,)).astype(np.float32)
        rule.apply_dense(state[0].handle, handles(state), tf.constant(gradient), tf.constant(rate))
        REFERENCE[name](expected, gradient, rate)
    assert_same(state, expected)


@pytest.mark.parametrize("rate", [1.0, 0.25])
@pytest.mark.parametrize("name", CHOICES)
def test_sparse_updates_touch_their_rows_alone(name: str, rate: float) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(2)
    state = variables(rule, generator.normal(size=(9, 3)).astype(np.float32))
    expected = [each.numpy().astype(np.float64) for each in state]
    for rows in ([0, 4, 8], [4, 1], [8], []):
        gradient = generator.normal(size=(len(rows), 3)).astype(np.float32)
        indices = tf.constant(rows, tf.int64)
        rule.apply_sparse(state[0].handle, handles(state), tf.constant(gradient), indices, tf.constant(rate))
        part = [each[np.array(rows, int)] for each in expected]
        REFERENCE[name](part, gradient, rate)
        for whole, changed in zip(expected, part, strict=True):
            whole[np.array(rows, int)] = changed
    assert_same(state, expected)


@pytest.mark.parametrize("name", KERAS)
def test_dense_updates_are_those_of_keras(name: str) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(3)
    weights = generator.normal(size=(7,)) * (name != "ftrl")
    state, optimizer = variables(rule, weights.astype(np.float32)), KERAS[name]()
    theirs = keras.Variable(weights.astype(np.float32))
    optimizer.build([theirs])
    for _ in range(6):
        gradient = tf.constant(generator.normal(size=(7,)), tf.float32)
        rule.apply_dense(state[0].handle, handles(state), gradient)
        optimizer.apply([gradient])
    np.testing.assert_allclose(state[0].numpy(), theirs.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", CHOICES)
def test_updates_in_a_traced_function_keep_their_order(name: str) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(4)
    state = variables(rule, generator.normal(size=(9, 3)).astype(np.float32))
    expected = [each.numpy().astype(np.float64) for each in state]

    @tf.function(autograph=False)
    def update(gradient: Any, rows: Any) -> Any:
        applied = rule.apply_sparse(state[0].handle, handles(state), gradient, rows, tf.constant(0.5))
        with tf.control_dependencies([applied]):
            return state[0].read_value()

    rows, gradient = [2, 5], generator.normal(size=(2, 3)).astype(np.float32)
    after = update(tf.constant(gradient), tf.constant(rows, tf.int64))
    part = [each[rows] for each in expected]
    REFERENCE[name](part, gradient, 0.5)
    for whole, changed in zip(expected, part, strict=True):
        whole[rows] = changed
    np.testing.assert_allclose(after.numpy(), expected[0], rtol=1e-4, atol=2e-6)
    assert_same(state, expected)


def test_adam_moves_a_new_row_by_its_learning_rate_however_late_it_comes() -> None:
    rule = rule_of(OptimizerChoice(adam=Adam(learning_rate=0.01)))
    state = variables(rule, np.zeros((2, 1), np.float32))
    for row in [0] * 50 + [1]:
        rule.apply_sparse(state[0].handle, handles(state), tf.ones([1, 1]), tf.constant([row], tf.int64))
    np.testing.assert_allclose(state[0].numpy()[1], [-0.01], rtol=1e-4)
    np.testing.assert_array_equal(state[3].numpy(), [50, 1])


def test_adam_of_a_server_without_a_share_of_the_vector_does_nothing() -> None:
    rule = rule_of(OptimizerChoice(adam=Adam()))
    state = variables(rule, np.zeros(0, np.float32))
    rule.apply_dense(state[0].handle, handles(state), tf.zeros([0]))
    assert [each.shape for each in state] == [(0,)] * 4


def test_ftrl_keeps_the_first_weights_where_no_gradient_came() -> None:
    rule = rule_of(OptimizerChoice(ftrl=Ftrl(learning_rate=0.1, l2=0.5)))
    weights = np.array([0.5, -0.25, 0.0], np.float32)
    state = variables(rule, weights)
    rule.apply_dense(state[0].handle, handles(state), tf.zeros([3]))
    np.testing.assert_allclose(state[0].numpy(), weights, rtol=1e-6)


def test_a_rate_of_zero_leaves_what_ftrl_has_learned() -> None:
    rule = rule_of(OptimizerChoice(ftrl=Ftrl(learning_rate=0.1)))
    state = variables(rule, np.array([0.5, -0.25], np.float32))
    rule.apply_dense(state[0].handle, handles(state), tf.constant([3.0, -2.0]), tf.constant(0.0))
    np.testing.assert_allclose(state[0].numpy(), [0.5, -0.25], rtol=1e-6)

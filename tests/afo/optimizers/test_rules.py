"""Every update rule against its formula in numpy."""

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.job import Adagrad, Ftrl, OptimizerChoice, Sgd  # noqa: E402
from afo.optimizers import Rule, rule_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

CHOICES = {
    "adagrad": OptimizerChoice(adagrad=Adagrad(learning_rate=0.3, initial_accumulator=0.2)),
    "ftrl": OptimizerChoice(ftrl=Ftrl(learning_rate=0.3, l1=0.02, l2=0.1, initial_accumulator=0.2)),
    "sgd": OptimizerChoice(sgd=Sgd(learning_rate=0.3)),
}


def adagrad(state: list[Any], g: Any) -> None:
    w, n = state
    n += g**2
    w -= 0.3 * g / np.sqrt(n)


def ftrl(state: list[Any], g: Any) -> None:
    w, n, z = state
    grown = n + g**2
    z += g - (np.sqrt(grown) - np.sqrt(n)) / 0.3 * w
    n[...] = grown
    w[...] = np.where(np.abs(z) <= 0.02, 0, (np.sign(z) * 0.02 - z) / (np.sqrt(n) / 0.3 + 0.2))


def sgd(state: list[Any], g: Any) -> None:
    state[0] -= 0.3 * g


REFERENCE = {"adagrad": adagrad, "ftrl": ftrl, "sgd": sgd}


def variables(rule: Rule, weights: Any) -> list[Any]:
    return [tf.Variable(value) for value in (tf.constant(weights), *rule.initial(tf.constant(weights)))]


@pytest.mark.parametrize("name", CHOICES)
def test_dense_updates_follow_the_formula(name: str) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(1)
    weights = generator.normal(size=(7,)).astype(np.float32)
    state = variables(rule, weights)
    expected = [each.numpy().astype(np.float64) for each in state]
    for _ in range(5):
        gradient = generator.normal(size=(7,)).astype(np.float32)
        rule.apply_dense(state[0].handle, tuple(slot.handle for slot in state[1:]), tf.constant(gradient))
        REFERENCE[name](expected, gradient)
    for found, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CHOICES)
def test_sparse_updates_touch_their_rows_alone(name: str) -> None:
    rule, generator = rule_of(CHOICES[name]), np.random.default_rng(2)
    state = variables(rule, generator.normal(size=(9, 3)).astype(np.float32))
    expected = [each.numpy().astype(np.float64) for each in state]
    for rows in ([0, 4, 8], [4, 1], [8]):
        gradient = generator.normal(size=(len(rows), 3)).astype(np.float32)
        slots = tuple(slot.handle for slot in state[1:])
        rule.apply_sparse(state[0].handle, slots, tf.constant(gradient), tf.constant(rows, tf.int64))
        part = [each[rows] for each in expected]
        REFERENCE[name](part, gradient)
        for whole, changed in zip(expected, part, strict=True):
            whole[rows] = changed
    for found, wanted in zip(state, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_ftrl_keeps_the_first_weights_where_no_gradient_came() -> None:
    rule = rule_of(OptimizerChoice(ftrl=Ftrl(learning_rate=0.1, l2=0.5)))
    weights = np.array([0.5, -0.25, 0.0], np.float32)
    state = variables(rule, weights)
    rule.apply_dense(state[0].handle, (state[1].handle, state[2].handle), tf.zeros([3]))
    np.testing.assert_allclose(state[0].numpy(), weights, rtol=1e-6)

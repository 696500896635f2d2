"""State of a server in TensorFlow's variables and in the store: the same protocol, the same answers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from afo.errors import Unsupported
from afo.job import Adagrad, Adam, AdamW, Ftrl, Momentum, OptimizerChoice, RMSprop, Sgd

pytestmark = pytest.mark.tensorflow

SIZE, SPLITS, STEPS = 5000, 6, 30
CHOICES = {
    "sgd": OptimizerChoice(sgd=Sgd()), "momentum": OptimizerChoice(momentum=Momentum(nesterov=True)),
    "adagrad": OptimizerChoice(adagrad=Adagrad()), "adam": OptimizerChoice(adam=Adam()),
    "adamw": OptimizerChoice(adamw=AdamW()), "ftrl": OptimizerChoice(ftrl=Ftrl(l1=0.001, l2=0.01)),
    "rmsprop": OptimizerChoice(rmsprop=RMSprop()),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """One server, in this process."""
    from afo.state import variables

    monkeypatch.setattr(variables, "_kept_here", [True])


def parameters(name: str, rule: str, *, stored: bool, size: int = SIZE) -> Any:
    """Of dense weights, and a hash table that nobody asks where they are `stored`."""
    from afo.embedding import TableGroup
    from afo.embedding.initializers import Initializer
    from afo.embedding.server_tables import Table
    from afo.optimizers import rule_of
    from afo.state.parameters import dense_vector, parameters_of, state_variable

    found = parameters_of(
        (), dense_vector(size, rule_of(CHOICES[rule]), 1), (), (state_variable("statistics", (3, 2), "float64"),),
        SPLITS, with_copies=False,
    )  # fmt: skip
    if not stored:
        return found
    table = Table("t", 4, Adagrad(), Initializer("constant", seed=0, value=0.0))
    group = TableGroup(found.dense.shards and [found.dense.shards[0].weights.device], name, tables=[table])
    group.create()
    return replace(found, embeddings=group)


@pytest.fixture(params=["variables", "store"])
def state(request: pytest.FixtureRequest) -> Any:
    """Of AdaGrad, its parameters beside it."""
    from afo.state.server_state import server_state

    found = parameters(request.node.name, "adagrad", stored=request.param == "store")
    return found, server_state(found, 0)


def first_records() -> dict[str, Any]:
    positions = np.tile(np.array([-1, 0, 0], np.int64), (SPLITS, 1))
    positions[[1, 4]] = [[0, 7, -5], [2, 9, 2**62]]
    return {"step": np.int64(3), "positions": positions, "statistics": np.arange(6.0).reshape(3, 2)}


@pytest.mark.parametrize("rule", CHOICES)
def test_both_learn_the_same_and_a_checkpoint_of_one_goes_on_in_the_other(rule: str) -> None:
    import tensorflow as tf

    from afo.state.server_state import server_state, step_state

    sides = [parameters(f"learns/{rule}", rule, stored=stored) for stored in (False, True)]
    states = [server_state(side, 0) for side in sides]
    random = np.random.default_rng(1)
    for state in states:
        state.reset_weights(np.linspace(-1, 1, SIZE, dtype=np.float32))

    def learner(side: Any) -> Any:
        def learn(gradient: Any, rate: Any) -> None:
            there = step_state(side, 0)
            there.add_to_weights(0.001 * there.read_weights())
            there.apply_gradient(gradient, rate)

        return tf.function(learn, [tf.TensorSpec([SIZE]), tf.TensorSpec([])], autograph=False)

    learners = [learner(side) for side in sides]
    for step in range(STEPS):
        gradient = tf.constant(random.normal(size=SIZE), tf.float32)
        for learn in learners:
            learn(gradient, tf.constant(1 / (1 + step)))
        if step == STEPS // 2:
            assert_close(states[0].read_weights(), states[1].read_weights())
            saved = [state.read_weights() for state in states]
            for state, others in zip(states, reversed(saved), strict=True):
                state.write_weights(others)
    assert_close(states[0].read_weights(), states[1].read_weights())


def assert_close(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_records_are_read_and_advanced(state: Any) -> None:
    import tensorflow as tf

    from afo.state.server_state import step_state

    found, whole = state
    whole.write_records(first_records())
    assert (whole.read_step(), whole.read_position(4), whole.read_position(0)) == (3, (2, 9, 2**62), (-1, 0, 0))

    def advance(splits: Any, positions: Any, added: Any) -> Any:
        there = step_state(found, 0)
        step, (statistics,), before = there.read_records(splits)
        _, then = there.advance(splits, positions, [added])
        return step, statistics, before, then

    splits, new = np.array([4, 0]), np.array([[2, 12, 1], [0, 5, 8]])
    step, statistics, before, then = tf.function(advance, autograph=False)(
        tf.constant(splits), tf.constant(new), tf.ones([3, 2], tf.float64)
    )
    expected = first_records()
    assert (int(step), int(then)) == (3, 4)
    np.testing.assert_array_equal(statistics, expected["statistics"])
    np.testing.assert_array_equal(before, expected["positions"][splits])
    expected["positions"][splits] = new
    assert_equal(whole.read_records(), expected | {"step": 4, "statistics": expected["statistics"] + 1})


def test_what_was_written_is_read(state: Any) -> None:
    _, whole = state
    whole.create()
    records = first_records()
    for step in (1, 8):
        whole.write_records(records | {"step": np.int64(step)})
        assert_equal(whole.read_records(), records | {"step": step})
    weights = {"dense": np.arange(SIZE, dtype=np.float32), "dense.accumulator": np.full(SIZE, 3, np.float32)}
    whole.write_weights(weights)
    assert_equal(whole.read_weights(), weights)


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_no_weights_are_none(state: Any) -> None:
    from afo.state.server_state import server_state

    none = server_state(parameters("nothing", "adam", stored=state[0].embeddings is not None, size=0), 0)
    none.reset_weights(np.zeros(0, np.float32))
    saved = none.read_weights()
    assert {name: value.shape for name, value in saved.items()} == dict.fromkeys(saved, (0,))
    none.write_weights(saved)


def test_positions_grow_with_the_splits_that_are_begun() -> None:
    from afo.state.server_state import server_state

    whole = server_state(parameters("grows", "sgd", stored=True), 0)
    whole.create()
    positions = np.tile(np.array([-1, 0, 0], np.int64), (SPLITS + 3, 1))
    positions[SPLITS + 2] = [0, 1, 2]
    whole.write_records(first_records() | {"positions": positions})
    np.testing.assert_array_equal(whole.read_records()["positions"], positions)


def test_a_state_that_a_store_cannot_add_to_is_refused() -> None:
    from afo.embedding.initializers import Initializer
    from afo.embedding.server_tables import Table
    from afo.optimizers import rule_of
    from afo.state.parameters import dense_vector, parameters_of, state_variable

    table = Table("t", 4, Adagrad(), Initializer("constant", seed=0, value=0.0))
    with pytest.raises(Unsupported, match="the model changes `seen` of float16 while it trains"):
        parameters_of(
            (), dense_vector(1, rule_of(CHOICES["sgd"]), 1), (), (state_variable("state.seen", (), "float16"),), 1,
            with_copies=False, embeddings=[table],
        )  # fmt: skip

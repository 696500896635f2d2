"""Every rule of rows against its formula in numpy, and against TensorFlow's where it has one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402

from afo import embedding  # noqa: E402
from afo import job as rules  # noqa: E402
from afo.errors import SpecError  # noqa: E402

pytestmark = pytest.mark.tensorflow

STEPS, KEYS = 7, 12
#: (state of a row, its gradient, step of the training, number of the table's updates so far)
Formula = Callable[[dict[str, Any], Any, int, int], None]


def adagrad(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s["n"] = s.get("n", np.full_like(s["w"], 0.2)) + g**2
    s["w"] -= 0.3 * g / (np.sqrt(s["n"]) + 1e-3)


def adagrad_decay(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    before = s.get("step", 0)
    passes = max(0, step // 2 - before // 2)
    s["n"] = np.maximum(s.get("n", np.full_like(s["w"], 0.2)) * 0.5**passes, 0.2) + g**2
    s["w"] -= 0.3 * g / (np.sqrt(s["n"]) + 1e-3)
    s["step"] = step


def adam(s: dict[str, Any], g: Any, step: int, powers: int, decay: float = 0.0) -> None:
    s["m"] = 0.8 * s.get("m", 0) + 0.2 * g
    s["v"] = 0.9 * s.get("v", 0) + 0.1 * g**2
    rate = 0.3 * np.sqrt(1 - 0.9**powers) / (1 - 0.8**powers)
    s["w"] = s["w"] - rate * s["m"] / (np.sqrt(s["v"]) + 1e-3) - 0.3 * decay * s["w"]


def adamw(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    adam(s, g, step, powers, decay=0.05)


def momentum(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s["v"] = 0.7 * s.get("v", 0) + g
    s["w"] = s["w"] - 0.3 * s["v"]


def nesterov(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s["v"] = 0.7 * s.get("v", 0) + g
    s["w"] = s["w"] - 0.3 * (g + 0.7 * s["v"])


def _ftrl_state(s: dict[str, Any], g: Any) -> tuple[Any, Any]:
    if "n" not in s:
        s["n"] = np.full_like(s["w"], 0.2)
        s["z"] = -s["w"] * (np.sqrt(0.2) / 0.3 + 2 * 0.1)
    grown = s["n"] + g**2
    s["z"] = s["z"] + g - (np.sqrt(grown) - np.sqrt(s["n"])) / 0.3 * s["w"]
    s["n"] = grown
    return s["z"], np.sqrt(grown) / 0.3 + 2 * 0.1


def ftrl(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    z, unit = _ftrl_state(s, g)
    s["w"] = np.where(np.abs(z) <= 0.02, 0, (np.sign(z) * 0.02 - z) / unit)


def group_ftrl(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    z, unit = _ftrl_state(s, g)
    left = np.sign(z) * np.maximum(np.abs(z) - 0.02, 0)
    length, least = np.linalg.norm(left), 0.4 * np.sqrt(len(z))
    s["w"] = np.zeros_like(z) if length <= least else (least / length - 1) * left / unit


def sgd(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s["w"] = s["w"] - 0.3 * g


def rmsprop(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s["v"] = 0.7 * s.get("v", 0) + (1 - 0.7) * g**2
    s["w"] = s["w"] - 0.3 * g / np.sqrt(s["v"] + 1e-3)


def forgetful_ftrl(s: dict[str, Any], g: Any, step: int, powers: int) -> None:
    s.setdefault("n", np.full_like(s["w"], 0.2))
    s.setdefault("z", np.zeros_like(s["w"]))
    ftrl(s, g, step, powers)


_ADAM = {"learning_rate": 0.3, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}
_FTRL = {"learning_rate": 0.3, "initial_accumulator": 0.2, "l1": 0.02, "l2": 0.1}
_ADAGRAD = {"learning_rate": 0.3, "initial_accumulator": 0.2, "epsilon": 1e-3}
CASES: dict[str, tuple[Any, Formula]] = {
    "sgd": (rules.Sgd(learning_rate=0.3), sgd),
    "adagrad": (rules.Adagrad(**_ADAGRAD), adagrad),
    "adagrad_decay": (rules.AdagradDecay(**_ADAGRAD, decay_rate=0.5, decay_steps=2), adagrad_decay),
    "adam": (rules.Adam(**_ADAM), adam),
    "adamw": (rules.AdamW(**_ADAM, weight_decay=0.05), adamw),
    "momentum": (rules.Momentum(learning_rate=0.3, momentum=0.7), momentum),
    "nesterov": (rules.Momentum(learning_rate=0.3, momentum=0.7, nesterov=True), nesterov),
    "ftrl": (rules.Ftrl(**_FTRL), ftrl),
    "forgetful ftrl": (rules.Ftrl(**_FTRL, forgets_first=True), forgetful_ftrl),
    "rmsprop": (rules.RMSprop(learning_rate=0.3, rho=0.7, epsilon=1e-3), rmsprop),
    "group_ftrl": (rules.GroupFtrl(**_FTRL, l21=0.4), group_ftrl),
}


def batches(dim: int) -> list[tuple[Any, Any]]:
    """(ids with repetitions, a gradient for each of them) of every step."""
    draw = np.random.default_rng(dim)
    return [(draw.integers(0, KEYS, 20), draw.normal(size=(20, dim)).astype(np.float32)) for _ in range(STEPS)]


def run(variable: Any, ids: Any, gradients: Any, step: int) -> None:
    with embedding.EmbeddingTape() as tape:
        rows = embedding.embedding_lookup(variable, ids)
        loss = tf.reduce_sum(rows * gradients)
    tape.gradient(loss)
    tape.apply(step=step)


def summed(ids: Any, gradients: Any) -> dict[int, Any]:
    return {int(key): gradients[ids == key].astype(np.float64).sum(0) for key in np.unique(ids)}


@pytest.mark.parametrize("dim", [1, 4, 16, 19])
@pytest.mark.parametrize("name", list(CASES))
def test_a_rule_is_its_formula_on_summed_duplicates(new_group: Any, name: str, dim: int) -> None:
    optimizer, formula = CASES[name]
    variable = embedding.get_embedding_variable("v", dim, optimizer=optimizer, seed=1, group=new_group(1))
    first = embedding.embedding_lookup(variable, np.arange(KEYS)).numpy().astype(np.float64)
    rows = [{"w": first[key]} for key in range(KEYS)]
    for step, (ids, gradients) in enumerate(batches(dim)):
        run(variable, ids, gradients, step)
        for key, gradient in summed(ids, gradients).items():
            formula(rows[key], gradient, step, step + 1)
    found = embedding.embedding_lookup(variable, np.arange(KEYS))
    np.testing.assert_allclose(found, np.stack([row["w"] for row in rows]), rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize("limits", [{"clip_value": 0.5}, {"clip_norm": 0.9}, {"clip_value": 0.5, "clip_norm": 0.9}])
def test_clipping_is_of_the_summed_gradient_of_a_row(new_group: Any, limits: dict[str, float]) -> None:
    dim = 6
    variable = embedding.get_embedding_variable(
        "v", dim, optimizer=rules.Sgd(learning_rate=1.0), initializer=0.0, group=new_group(1), **limits
    )
    expected = np.zeros((KEYS, dim))
    for step, (ids, gradients) in enumerate(batches(dim)):
        run(variable, ids, gradients, step)
        for key, gradient in summed(ids, gradients).items():
            kept = np.clip(gradient, -limits.get("clip_value", np.inf), limits.get("clip_value", np.inf))
            length = np.linalg.norm(kept)
            expected[key] -= kept * min(1.0, limits.get("clip_norm", np.inf) / length)
    np.testing.assert_allclose(embedding.embedding_lookup(variable, np.arange(KEYS)), expected, rtol=1e-5, atol=1e-6)


KERAS = {
    "sgd": lambda: keras.optimizers.SGD(0.3),
    "adagrad": lambda: keras.optimizers.Adagrad(0.3, initial_accumulator_value=0.2, epsilon=1e-12),
    "adam": lambda: keras.optimizers.Adam(0.3, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
    "momentum": lambda: keras.optimizers.SGD(0.3, momentum=0.7),
    "nesterov": lambda: keras.optimizers.SGD(0.3, momentum=0.7, nesterov=True),
    "ftrl": lambda: keras.optimizers.Ftrl(
        0.3, initial_accumulator_value=0.2, l1_regularization_strength=0.02, l2_regularization_strength=0.1
    ),
}


@pytest.mark.parametrize("name", list(KERAS))
def test_a_rule_is_keras_on_all_rows(new_group: Any, name: str) -> None:
    """On batches that name every row, where lazy and eager rules say the same. FTRL begins at 0, as Keras assumes."""
    dim = 5
    optimizer = rules.Adagrad(learning_rate=0.3, initial_accumulator=0.2) if name == "adagrad" else CASES[name][0]
    start = 0.0 if name == "ftrl" else None
    variable = embedding.get_embedding_variable("v", dim, optimizer=optimizer, initializer=start, group=new_group(1))
    dense = tf.Variable(embedding.embedding_lookup(variable, np.arange(KEYS)))
    theirs = KERAS[name]()
    draw = np.random.default_rng(3)
    for step in range(STEPS):
        gradients = draw.normal(size=(KEYS, dim)).astype(np.float32)
        run(variable, np.arange(KEYS), gradients, step)
        theirs.apply_gradients([(tf.constant(gradients), dense)])
    # Keras' Adam has its epsilon beside the corrected root.
    tolerance = 6e-3 if name == "adam" else 2e-4
    np.testing.assert_allclose(
        embedding.embedding_lookup(variable, np.arange(KEYS)), dense, rtol=tolerance, atol=tolerance
    )


def test_a_schedule_scales_the_rate_and_a_gradient_of_nothing_changes_nothing(new_group: Any) -> None:
    variable = embedding.get_embedding_variable(
        "v", 2, optimizer=rules.Sgd(learning_rate=1.0), initializer=0.0, group=new_group(2)
    )
    with embedding.EmbeddingTape() as tape:
        rows = embedding.embedding_lookup(variable, [1, 2])
        loss = tf.reduce_sum(rows)
    tape.gradient(loss)
    tape.apply(schedule=tf.constant(0.25))
    np.testing.assert_array_equal(embedding.embedding_lookup(variable, [1, 2]), np.full((2, 2), -0.25))
    with embedding.EmbeddingTape() as tape:
        embedding.embedding_lookup(variable, [1, 2])
        loss = tf.constant(1.0)
    tape.gradient(loss)
    assert tape.apply() == []


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (partial(rules.Sgd, learning_rate=0.0), "Sgd: `learning_rate` is 0.0; allowed: number > 0"),
        (partial(rules.Adam, beta_1=1.0), "Adam: `beta_1` is 1.0; allowed: number >= 0 and <= 0.999999"),
        (partial(rules.AdagradDecay, decay_steps=0), "`decay_steps` is 0; allowed: whole number >= 1 and"),
        (partial(rules.Adam, epsilon=0.0), "Adam: `epsilon` is 0.0; allowed: number > 0"),
        (partial(rules.RMSprop, epsilon=0.0), "RMSprop: `epsilon` is 0.0; allowed: number > 0"),
        (partial(rules.Ftrl, initial_accumulator=0.0), "Ftrl: `initial_accumulator` 0 would lose the first weights"),
        (partial(rules.Ftrl, l1=float("nan")), "Ftrl: `l1` is nan; allowed: number >= 0"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(rule: Callable[[], object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        rule()


def test_ftrl_begins_at_zero_as_keras_allows() -> None:
    assert rules.Ftrl(initial_accumulator=0.0, forgets_first=True).initial_accumulator == 0


def test_limits_of_gradients_that_cannot_be(new_group: Any) -> None:
    with pytest.raises(SpecError, match=r"`clip_norm` is -1.0; allowed: number > 0"):
        embedding.get_embedding_variable("v", 2, clip_norm=-1.0, group=new_group(1))


def test_every_rule_is_the_engines_under_the_name_of_the_job_file(new_group: Any) -> None:
    """With its own slots and all of its options: the engine refuses what it does not know."""
    group = new_group(1)
    for key in rules.RowOptimizer.__struct_fields__:
        if not key.startswith("clip_"):
            rule = msgspec.convert({key: {}}, rules.RowOptimizer).chosen
            assert rule is not None
            assert rule.key == key
            embedding.get_embedding_variable(key, 2, optimizer=rule, group=group)

"""What of Keras changes a training works in a job as in Keras, or is refused: docs/keras.md, line by line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")

import keras_cases
from fork_server import start_function
from keras_cases import CASES

pytestmark = pytest.mark.tensorflow

DOCS = Path(__file__).parents[3] / "docs" / "keras.md"
#: Each has something of its own in the trainer; with what is slow this is every line on every storage.
QUICK = {
    "Dense(kernel_constraint=MaxNorm(0.5))", "SpectralNormalization(Dense(...))", "trainable=False with AdamW",
    "set_weights([matrix])", "Adagrad(initial_accumulator_value=..., epsilon=...)", "AdamW(weight_decay=...)",
    "RMSprop(rho=..., epsilon=...)", "Ftrl(l1_..., l2_..., beta=...)", "clipnorm=...", "clipvalue=...",
    "global_clipnorm=...",
    "embeddings_constraint=MaxNorm(0.3, axis=1)", "LearningRateScheduler(...)",
    "fit(class_weight={0: ..., 1: ...})", "learning_rate=PiecewiseConstantDecay(...), momentum=...",
}  # fmt: skip


def _cases() -> list[Any]:
    pairs = [(each.option, storage) for each in CASES.values() if not each.refused for storage in each.storages]
    return [
        pytest.param(*pair, marks=[] if pair[0] in QUICK and pair[1] == "hash_table" else pytest.mark.slow)
        for pair in pairs
    ]


def _run(function: str, *arguments: str) -> Any:
    assert start_function("keras_steps", function, *arguments).wait(120) == 0
    return json.loads(Path(arguments[-1]).read_text())


@pytest.mark.parametrize(("option", "storage"), _cases())
def test_an_option_does_what_it_does_in_keras(option: str, storage: str, tmp_path: Path) -> None:
    _require_alike(_run("write_steps", option, storage, str(tmp_path / "steps.json")))


@pytest.mark.parametrize("storage", ["hash_table", "dense"])
def test_a_regularizer_of_a_table_is_of_each_row_that_a_batch_names(storage: str, tmp_path: Path) -> None:
    _require_alike(_run("write_halves", storage, str(tmp_path / "steps.json")))


def _require_alike(found: Any) -> None:
    assert found["losses"] == pytest.approx(found["keras_losses"], abs=1e-5)
    np.testing.assert_allclose(found["weights"], found["keras_weights"], atol=1e-5)
    assert max(found["losses"]) - min(found["losses"]) > 1e-3, "nothing was trained"


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is said of each line that is refused."""
    return _run("write_refusals", str(tmp_path_factory.mktemp("keras") / "refusals.json"))


@pytest.mark.parametrize("option", [each.option for each in CASES.values() if each.refused])
def test_an_option_that_is_not_offered_is_refused(refusals: dict[str, str], option: str) -> None:
    assert CASES[option].refused in refusals[option]


def test_the_page_is_what_is_tested() -> None:
    assert set(CASES) > QUICK
    assert DOCS.read_text() == keras_cases.page()

"""Callbacks beside a user's model: what is read of the file, and that a job stops where Keras would."""

import importlib.util
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("keras")

import keras

from afo.errors import ModelError, SpecError
from afo.events import types as ev
from afo.formats.units import Interval
from afo.job import Data, EarlyStop, Export, Job, Model, RoleSpec
from afo.models.entry import build_model, callbacks_of
from afo.rpc.messages import TaskId
from afo.trainable import own_callbacks
from afo.trainable.own_callbacks import MOST_EPOCHS, OwnCallbacks
from afo_am.state.evaluations import Evaluations
from click_records import SCHEMA

pytestmark = pytest.mark.tensorflow


def model_of(folder: Path, text: str, **params: Any) -> Model:
    """The model of a file that was loaded, with a function `build` and `text`."""
    path = folder / "my_ctr.py"
    path.write_text(f"import keras\n{text}\n\ndef build(**params):\n    return 1\n")
    model = Model(entry=f"{path}:build", params=params)
    build_model(model, SCHEMA)
    return model


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("from keras import callbacks", []),
        ("callbacks = [keras.callbacks.TerminateOnNaN()]", ["TerminateOnNaN"]),
        ("def callbacks():\n    return (keras.callbacks.History(),)", ["History"]),
        ("def callbacks(patience):\n    return [keras.callbacks.EarlyStopping(patience=patience)]", ["EarlyStopping"]),
    ],
)
def test_callbacks_are_a_list_or_a_function_in_the_models_file(text: str, names: list[str], tmp_path: Path) -> None:
    assert [type(each).__name__ for each in callbacks_of(model_of(tmp_path, text, patience=2, dim=8))] == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("callbacks = 3", "`callbacks` gives int; it must be a list"),
        ("def callbacks(logdir):\n    return []", "TypeError: callbacks.. missing 1 required .*'logdir'"),
        ("callbacks = ['early']", "`callbacks` gives builtins.str, no callback"),
    ],
)
def test_what_is_no_list_of_callbacks_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=said):
        OwnCallbacks(job_of(model_of(tmp_path, text)), [])


def test_a_keras_that_lacks_one_of_them_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(keras.callbacks, "OrbaxCheckpoint", raising=False)  # Keras 3.12 has none
    spec = importlib.util.spec_from_file_location("own_callbacks_again", own_callbacks.__file__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def job_of(model: Model) -> Job:
    return Job(
        name="own", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(train=("part-*",)), model=model
    )  # fmt: skip


@pytest.mark.parametrize("rate", ["-0.1", "float('nan')"])
def test_a_rate_that_is_none_is_named_with_its_epoch(rate: str, tmp_path: Path) -> None:
    text = f"callbacks = [keras.callbacks.LearningRateScheduler(lambda epoch, rate: {rate} if epoch else rate)]"
    own = OwnCallbacks(job_of(model_of(tmp_path, text)), [])
    assert own.rates(0.5, 1) == (0.5,)
    with pytest.raises(ModelError, match=r"LearningRateScheduler gives the rate (-0.1|nan).* for epoch 1"):
        own.rates(0.5, 2)
    with pytest.raises(SpecError, match="at most 100,000"):
        own.rates(0.5, MOST_EPOCHS + 1)


@pytest.mark.parametrize(("metric", "mode"), [("auc", "max"), ("log_loss", "min")])
@pytest.mark.parametrize("min_delta", [0.0, 0.05])
def test_a_job_stops_after_the_evaluation_after_which_keras_would(metric: str, mode: str, min_delta: float) -> None:
    draw = random.Random(f"{metric} {min_delta}")
    for patience in (0, 1, 2, 5) * 10:
        values = [draw.random() for _ in range(40)]
        callback = keras.callbacks.EarlyStopping("value", min_delta=min_delta, patience=patience, mode=mode)
        rule = EarlyStop(metric=metric, patience=max(1, patience), min_delta=min_delta)
        assert job_stops(rule, values) == keras_stops(callback, values)


def keras_stops(callback: Any, values: list[float]) -> int:
    """The number of the evaluation after which Keras ends a training; -1 after none of them."""
    model = SimpleNamespace(stop_training=False)
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"value": value})
        if model.stop_training:
            return epoch
    return -1


def job_stops(rule: EarlyStop, values: list[float]) -> int:
    evaluations = Evaluations(Export(), rule, Interval("10m"))
    for number, value in enumerate(values):
        evaluations.take(
            ev.Evaluated(
                task=TaskId(role="evaluator", index=0, attempt=1),
                step=number,
                manifest=f"m{number}",
                metrics={rule.metric: value},
                final=False,
            )
        )
        if evaluations.exhausted:
            return number
    return -1

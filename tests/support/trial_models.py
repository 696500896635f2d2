"""Models of two features and one label, of which most cannot be trained, and their first step in a process alone."""

import json
import os
from pathlib import Path
from typing import Any

import keras
from keras import layers

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.errors import AfoError
from afo.formats.units import Memory
from afo.job import Data, Job, Model, RoleSpec
from afo.layers import Embedding
from afo.protocol.offline_task import NumberedFile
from afo.train import trial_step
from afo.train.setup import JobParts

SCHEMA = "label: click\nfeatures: [{name: user, kind: categorical, hash_buckets: 100}, {name: age, kind: dense}]\n"


def sound() -> Any:
    """Half of the samples are of one class, and it begins with log odds of 0."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid", kernel_initializer="zeros")(age))


def outside_of_its_table() -> Any:
    """Users are 0 to 31."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid")(Embedding(20, 4)(user)[:, 0]))


def not_finite() -> Any:
    """A logarithm of what is below 0."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid")(keras.ops.log(age - 1000.0)))


def nothing_to_train() -> Any:
    """All is frozen."""
    model = sound()
    model.trainable = False
    return model


def log_odds() -> Any:
    """Nobody says so."""
    return _model(lambda user, age: layers.Dense(1, kernel_initializer="ones")(Embedding(100, 4)(user)[:, 0]) - age)


def two_outputs() -> Any:
    """For one label."""
    return _model(lambda user, age: layers.Dense(2, "sigmoid")(age))


def metric_of_two_values() -> Any:
    """Of which a job keeps one."""
    model = sound()
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.Precision(thresholds=[0.2, 0.5])])
    return model


def too_large() -> Any:
    """16 GiB of its own weights."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid")(layers.Embedding(1 << 30, 4)(user)[:, 0]))


def table_of_keras() -> Any:
    """32 MiB that every worker gets in each step."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid")(layers.Embedding(1 << 20, 8)(user)[:, 0]))


def dense_tables() -> Any:
    """Rows that take 4 GiB on the servers."""
    return _model(lambda user, age: layers.Dense(1, "sigmoid")(Embedding(1 << 28, 4)(user)[:, 0]))


def write_trial(name: str, storage: str, target: str) -> None:
    """What came of the first step of a model of this module, or of `wide_deep`, as JSON; ends its process."""
    folder = Path(target).parent
    Path(folder, "schema.yaml").write_text(SCHEMA)
    data = write_records(folder / "part-0.tfrecord")
    model = Model() if name == "wide_deep" else Model(entry=f"{__file__}:{name}")
    model = Model(entry=model.entry, embedding=type(model.embedding)(storage=storage))  # type: ignore[arg-type]
    roles: Any = {"ps": RoleSpec(instances=3), "worker": RoleSpec(memory=Memory(1024))}
    job = Job(name="trial", roles=roles, data=data, model=model)
    trial_step.bound_memory(job)
    try:
        found = trial_step.run(JobParts(job, str(folder / "schema.yaml")), [NumberedFile(0, data.train[0])], folder)
        result: dict[str, Any] = {"samples": found.samples, "loss": found.loss, "warnings": found.warnings}
    except AfoError as error:
        result = {"error": type(error).__name__, "text": str(error)}
    Path(target).write_text(json.dumps(result))
    os._exit(0)  # the interpreter's own end joins TensorFlow's threads


def write_records(path: Path) -> Data:
    """64 records, of which every other one is a click; the data of a job of them."""
    with RecordWriter(str(path)) as writer:
        for number in range(64):
            writer.write(encode({"user": [number % 32], "age": [float(number)], "click": [number % 2]}))
    return Data(train=(str(path),), label="click", batch_size=48)


def _model(made: Any) -> Any:
    user, age = keras.Input((1,), dtype="int64", name="user"), keras.Input((1,), name="age")
    return keras.Model({"user": user, "age": age}, made(user, age))

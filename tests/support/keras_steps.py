"""Steps of a model by a job's own step function on two parameter servers, and by Keras alone; ends its process."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.pipeline.batch_fragments import Origins
from afo.data.schema import Schema
from afo.errors import ModelError, SpecError, Unsupported
from afo.job import Data, Embedding, Job, Model, RoleSpec, Shuffle
from afo.models.parser import RecordParser
from afo.ops import library
from afo.state.server_connections import connect
from afo.state.server_state import server_states
from afo.train.step import prepare_function, step_function
from afo.trainable.entry_model import EntryModel
from keras_cases import CASES, USERS, Case

STEPS = 6
_SCHEMA = Schema(
    label="label",
    sample_id="sample_id",
    features=(Feature(name="user", kind="categorical", hash_buckets=USERS), Feature(name="age", kind="dense")),
)
_SERVERS, _SEED = 2, 3


def write_steps(name: str, storage: str, target: str) -> None:
    """Losses of each step and the dense weights after the last, of both, as JSON."""
    batches = [_batch(np.random.default_rng(step)) for step in range(STEPS)]
    found = _of_job(_job(name, storage), batches)
    keras.backend.clear_session()
    _end(target, found | _alone(CASES[name], batches))


def write_halves(storage: str, target: str) -> None:
    """The same where a table has a regularizer and each batch names one half of its rows, each row twice.

    Keras alone has one that is told the rows of each batch: what a job's is of.
    """
    name = "embeddings_regularizer=L2(...)"
    batches = [_batch(np.random.default_rng(step), half=step % 2) for step in range(STEPS)]
    found = _of_job(_job(name, storage), batches)
    keras.backend.clear_session()
    named = tf.Variable(tf.zeros([USERS, 1]))
    penalty = CASES[name].embedding()["embeddings_regularizer"]
    case = replace(CASES[name], embedding=lambda: {"embeddings_regularizer": lambda rows: penalty(rows * named)})
    _end(target, found | _alone(case, batches, named))


def write_refusals(target: str) -> None:
    """What is said of each line that is refused, as JSON; empty where it is not."""
    _end(target, {case.option: _refusal(case.option) for case in CASES.values() if case.refused})


def _end(target: str, found: dict[str, Any]) -> None:
    Path(target).write_text(json.dumps(found))
    os._exit(0)  # the interpreter's own end joins TensorFlow's threads


def _refusal(name: str) -> str:
    try:
        EntryModel(_SCHEMA, _job(name, "hash_table"))
    except (ModelError, SpecError, Unsupported) as error:
        return str(error)
    return ""


def _job(name: str, storage: str) -> Job:
    job = Job(
        name="steps",
        roles={"ps": RoleSpec(instances=_SERVERS), "worker": RoleSpec(), "evaluator": RoleSpec()},
        data=Data(
            train=("part-*",),
            eval=("part-*",),
            epochs=STEPS,
            sample_id="sample_id",
            batch_size=USERS,
            shuffle=Shuffle(seed=_SEED),
            class_weight={str(each): weight for each, weight in (CASES[name].class_weight or {}).items()},
        ),
        model=Model(
            entry=f"{Path(__file__).with_name('keras_cases.py')}:build",
            params={"name": name},
            embedding=Embedding(storage=storage),  # type: ignore[arg-type]
        ),
    )
    return CASES[name].job(job)


def _of_job(job: Job, batches: list[dict[str, Any]]) -> dict[str, Any]:
    with connect(_serve()):
        model = EntryModel(_SCHEMA, job)
        parameters = model.parameters(_SERVERS, 1)
        step = _traced(model, parameters, job)
        model.initialize(parameters)
        losses = [float(step(batch, epoch).loss) for epoch, batch in enumerate(batches)]
        return {"losses": losses, "weights": _evaluated(model, parameters)}


def _evaluated(model: EntryModel, parameters: Any) -> list[float]:
    """The dense weights as an evaluation sees them."""
    states = server_states(parameters)
    vector, records = np.concatenate([state.read_weights()["dense"] for state in states]), states[0].read_records()
    variables = model._own.variables
    variables.assign(tf.constant(vector), [records[each.tensor] for each in parameters.state], STEPS)
    return [float(each) for variable in variables.trained for each in variable.numpy().ravel()]


def _traced(model: EntryModel, parameters: Any, job: Job) -> Any:
    prepare = prepare_function(model, RecordParser(_SCHEMA, job.data), _SERVERS)
    step = step_function(model, parameters, prepare)
    step.get_concrete_function()
    none = tf.zeros([USERS], tf.int64)
    return lambda batch, epoch: step(
        prepare(tf.constant(_records(batch)), Origins(none, none + epoch, none, none)), tf.zeros([], tf.int64)
    )


def _alone(case: Case, batches: list[dict[str, Any]], named: Any = None) -> dict[str, Any]:
    """What `train_on_batch` makes of the same batches, an epoch each. `named` is told which rows each has."""
    keras.utils.set_random_seed(_SEED)
    model = case.build()
    callbacks = keras.callbacks.CallbackList(case.callbacks(), model=model)
    losses = []
    for epoch, batch in enumerate(batches):
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        if named is not None:
            named.assign(np.isin(np.arange(USERS), batch["user"])[:, np.newaxis].astype(np.float32))
        inputs = {"user": batch["user"][:, np.newaxis], "age": batch["age"][:, np.newaxis]}
        labels, by_class = batch["label"][:, np.newaxis], case.class_weight
        losses.append(float(model.train_on_batch(inputs, labels, class_weight=by_class, return_dict=True)["loss"]))
    weights = [each.numpy().ravel() for each in model.trainable_weights if "embeddings" not in each.path]
    return {"keras_losses": losses, "keras_weights": np.concatenate(weights).tolist()}


def _batch(draw: np.random.Generator, half: int | None = None) -> dict[str, Any]:
    """Each user once: rules that differ from Keras where a row is named twice or not at all are like it here.

    With `half` each of one half twice.
    """
    users = draw.permutation(USERS)
    age = draw.normal(size=USERS).astype(np.float32)
    return {
        "user": users if half is None else users // 2 + half * USERS // 2,
        "age": age,
        "label": (age + draw.normal(size=USERS) > 0.3).astype(np.float32),
    }


def _records(batch: dict[str, Any]) -> list[bytes]:
    return [
        encode({"user": [int(user)], "age": [float(age)], "label": [int(label)], "sample_id": [at]})
        for at, (user, age, label) in enumerate(zip(batch["user"], batch["age"], batch["label"], strict=True))
    ]


def _serve() -> tuple[str, ...]:
    """Addresses of parameter servers, which live as long as this process."""
    library.load_for_job()
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(_SERVERS)]
    addresses = tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in held)
    for each in held:
        each.close()
    cluster = tf.train.ClusterSpec({"ps": list(addresses)})
    for index in range(_SERVERS):
        _kept.append(tf.distribute.Server(cluster, job_name="ps", task_index=index, start=True))
    return addresses


_kept: list[Any] = []

"""A sample counts the same in a batch of any size: the last batch of a worker is seldom whole."""

import collections
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from afo.checkpoint.restore import CheckpointReader
from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.job import Data, Embedding, Job, Model, Optimizer, OptimizerChoice, RoleSpec, Sgd
from afo.models.feature_layout import layout_of
from click_records import SCHEMA
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

RunJob = Callable[..., JobRun]
Storage = Literal["dense", "hash_table"]
STORAGES = pytest.mark.parametrize("storage", ["dense", "hash_table"])
BATCH, SHORT = 64, 20
SAMPLES = 2 * BATCH + SHORT
USERS = [min(number % 7, 3) for number in range(SAMPLES)]
AGES = [10.0 + number % 50 for number in range(SAMPLES)]
#: Linear weights of a sample: user, city, two liked, the interval of the age.
IDS = 5
RATE = 1e-9


def job_of(folder: Path, model: Model, optimizer: Optimizer, weight: str | None = None) -> Job:
    """A job of one worker, which makes two whole batches and a short one of clicks alone."""
    with RecordWriter(str(folder / "part-00.tfrecord")) as writer:
        for number, (user, age) in enumerate(zip(USERS, AGES, strict=True)):
            record = {"user": [user], "city": ["Ulm"], "liked": [1, 2], "age": [age]}
            writer.write(encode(record | {"label": [1], "sample_id": [number]}))
    return Job(
        name="short",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(
            schema="schema.yaml", train=(f"{folder}/part-*",), sample_id="sample_id", batch_size=BATCH, weight=weight
        ),
        model=model,
        optimizer=optimizer,
    )


def trained(run: JobRun, folder: Path) -> CheckpointReader:
    """The model after its only epoch."""
    run.start_servers()
    run.finish(run.start("worker", 0))
    assert run.master.checkpoints[-1].step == math.ceil(SAMPLES / BATCH)
    return CheckpointReader(run.master.checkpoints[-1].manifest, folder)


@STORAGES
def test_each_sample_moves_the_dense_weights_of_wide_and_deep_alike(
    storage: Storage, tmp_path: Path, schema_file: Path, run_job: RunJob
) -> None:
    # So slow that the log odds stay 0, and the gradient of each sample by them is -1/2 all the time.
    slow = OptimizerChoice(sgd=Sgd(learning_rate=RATE))
    model = Model(parts="wide", embedding=Embedding(storage=storage))
    job = job_of(tmp_path, model, Optimizer(wide=slow, deep=slow), weight="age")
    with trained(run_job(job, schema_file), tmp_path / "read") as reader:
        [bias] = reader.whole("dense")
        linear = linear_weights(reader, job)
    assert bias == pytest.approx(RATE * SAMPLES / BATCH / 2, rel=1e-4)
    # Rows follow the sum over the samples by weight, in a batch of any size.
    assert linear.sum() == pytest.approx(RATE * sum(AGES) * IDS / 2, rel=1e-4)


def linear_weights(reader: CheckpointReader, job: Job) -> Any:
    """All of them."""
    layout = layout_of(SCHEMA, job.model)
    if job.model.embedding.storage == "dense":
        return reader.table("wide", layout.wide_rows, 1)
    return np.concatenate([rows.weights for rows in reader.hash_tables(dict.fromkeys(layout.wide_tables, 1)).values()])


@STORAGES
def test_each_sample_moves_the_weights_and_rows_of_an_own_model_alike(
    storage: Storage, tmp_path: Path, schema_file: Path, run_job: RunJob
) -> None:
    weight, rows = counted(storage, "sum_over_batch_size", tmp_path, schema_file, run_job)
    assert weight == pytest.approx(-SAMPLES / BATCH)
    assert rows == pytest.approx({user: -count / BATCH for user, count in collections.Counter(USERS).items()})


def test_a_loss_that_is_a_sum_is_left_as_it_is(tmp_path: Path, schema_file: Path, run_job: RunJob) -> None:
    weight, rows = counted("hash_table", "sum", tmp_path, schema_file, run_job)
    assert weight == pytest.approx(-SAMPLES)
    assert rows == pytest.approx({user: -count for user, count in collections.Counter(USERS).items()})


def counted(
    storage: Storage, reduction: str, folder: Path, schema_file: Path, run_job: RunJob
) -> tuple[float, dict[int, Any]]:
    """The weight of `counting_model` and its rows by user, which all begin with 0."""
    entry = f"{Path(__file__).parents[2]}/support/user_models/counting_model.py:build"
    model = Model(entry=entry, params={"reduction": reduction}, embedding=Embedding(storage=storage))
    with trained(run_job(job_of(folder, model, Optimizer()), schema_file), folder / "read") as reader:
        [weight] = reader.whole("dense")
        if storage == "dense":
            rows = dict(enumerate(reader.table("embedding.users", 10, 1)[:, 0]))
        else:
            table = reader.hash_tables({"embedding.users": 1})["embedding.users"]
            rows = dict(zip(table.keys.tolist(), table.weights[:, 0], strict=True))
    return weight, {user: rows[user] for user in set(USERS)}

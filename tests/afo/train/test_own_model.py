"""A user's own model on two parameter servers, with two workers and an evaluator: real processes, small data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.job import (
    Adagrad,
    Data,
    Embedding,
    Eviction,
    Filter,
    Job,
    Model,
    Optimizer,
    OptimizerChoice,
    RoleSpec,
    Shuffle,
    Train,
)
from afo.models.entry import load
from afo.models.parser import RecordParser
from click_records import SCHEMA, expected_acks, write_files
from served_auc import served_auc
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

OWN = Path(__file__).parents[2] / "support" / "user_models" / "click_model.py"
RunJob = Callable[..., JobRun]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_files(tmp_path / "data", 4, 1500)
    write_files(tmp_path / "data", 2, 500, "eval", first_id=10**6)
    return Job(
        name="own",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2), "evaluator": RoleSpec()},
        data=Data(
            schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), eval=(f"{tmp_path}/data/eval-*",),
            sample_id="sample_id", batch_size=64, epochs=2, shuffle=Shuffle(buffer=300),
        ),
        model=Model(entry=f"{OWN}:build"),
        optimizer=Optimizer(deep=OptimizerChoice(adagrad=Adagrad(learning_rate=0.1))),
    )  # fmt: skip


def test_a_keras_model_trains_evaluates_and_exports(job: Job, schema_file: Path, run_job: RunJob) -> None:
    run = run_job(replace(job, train=Train(pipeline=1)), schema_file)
    run.start_servers()
    names = [run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0)]
    run.finish(*names)
    measured = run.master.evals[-1]
    assert measured.final
    # The log odds that made the labels reach 0.840 on these files.
    assert measured.metrics["auc"] > 0.82
    served = served_auc(run.directory / "export", schema_file.parent / "data")
    assert served == pytest.approx(measured.metrics["auc"], abs=1e-6)
    # Another number of servers takes over: nothing is left to train on, and the same model comes out.
    final = run.master.checkpoints[-1]
    run.close()
    roles = {"ps": RoleSpec(instances=3), "worker": RoleSpec()}
    again = run_job(
        replace(job, roles=roles), schema_file, directory=run.directory, generation=2, restore=final.manifest
    )
    again.master.take_up(final.positions, expected_acks(4, 1500))
    again.start_servers()
    again.finish(again.start("worker", 0))
    assert again.master.checkpoints[-1].step == final.step
    assert served_auc(run.directory / "export", schema_file.parent / "data") == pytest.approx(served, abs=1e-6)


def test_a_filter_and_evictions_are_of_the_tables_of_layers_too(job: Job) -> None:
    from afo.trainable.entry_model import EntryModel

    policies = Embedding(filter=Filter(min_count=3, default_value=0.5), evict=Eviction(capacity=9))
    model = EntryModel(SCHEMA, replace(job, model=replace(job.model, embedding=policies)))
    group = model.parameters(2, 1).embeddings
    assert group is not None
    assert {(table.filter, table.eviction) for table in group.tables} == {(policies.filter, policies.evict)}


@pytest.mark.slow
def test_a_module_of_tensorflow_trains(job: Job, schema_file: Path, run_job: RunJob) -> None:
    model = Model(entry=f"{OWN}:build_module", from_logits=True)
    roles = {"ps": RoleSpec(instances=2), "worker": RoleSpec(), "evaluator": RoleSpec()}
    run = run_job(replace(job, model=model, roles=roles), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("evaluator", 0))
    assert run.master.evals[-1].metrics["auc"] > 0.82


def test_one_worker_makes_the_model_that_keras_makes(
    job: Job, schema_file: Path, run_job: RunJob, tmp_path: Path
) -> None:
    train = f"{tmp_path}/data/part-00.tfrecord"
    data = replace(job.data, train=(train,), epochs=1, weight="age", shuffle=Shuffle(buffer=0, seed=3))
    job = replace(job, data=data, model=Model(entry=f"{OWN}:build_compiled"), optimizer=Optimizer())
    run = run_job(replace(job, roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()}), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0))
    served, alone = trained_by_keras(train, job.data.batch_size, job.data.shuffle.seed, run.directory / "export")
    assert alone.std() > 0.05
    assert served == pytest.approx(alone, abs=2e-5)


def trained_by_keras(train: str, batch_size: int, seed: int, export: Path) -> tuple[Any, Any]:
    """Probabilities of the exported model, and of the same one out of `train_on_batch` on the same batches."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    model = load(f"{OWN}:build_compiled")()
    parser = RecordParser(SCHEMA, Data(train=(train,), label="label", weight="age"))
    records = list(tf.data.TFRecordDataset(train))
    rate = float(model.optimizer.learning_rate)
    assert len(records) % batch_size
    for start in range(0, len(records), batch_size):
        batch = parser(tf.stack(records[start : start + batch_size]))
        # Keras makes a whole step of a short batch; in a job each sample counts as it does in a whole one.
        model.optimizer.learning_rate = rate * len(batch.labels) / batch_size
        model.train_on_batch({name: batch.features[name] for name in model.input}, batch.labels, batch.weight)
    serve = tf.saved_model.load(str(export)).signatures["serving_default"]
    served = serve(examples=tf.stack(records))["probabilities"].numpy()
    features = parser.inputs(tf.stack(records))
    alone = model({name: features[name] for name in model.input}, training=False).numpy()[:, 0]
    keras.backend.clear_session()
    return served, alone


def test_a_number_that_is_none_names_step_file_and_feature(
    job: Job, schema_file: Path, run_job: RunJob, tmp_path: Path
) -> None:
    record = {"user": [1], "city": ["Ulm"], "liked": [1, 2], "age": [float("nan")], "label": [1], "sample_id": [7]}
    with RecordWriter(str(tmp_path / "data" / "part-00.tfrecord")) as writer:
        for _ in range(40):
            writer.write(encode(record | {"age": [30.0]}))
        writer.write(encode(record))
    data = replace(job.data, train=(f"{tmp_path}/data/part-00*",), shuffle=Shuffle(buffer=0))
    run = run_job(replace(job, data=data, roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()}), schema_file)
    run.start_servers()
    assert run.wait(run.start("worker", 0)) == 1
    last = run.stderr("worker:0").splitlines()[-1]
    assert last.startswith("afo.errors.NotFinite: step 1, a batch of 41 samples of "), last
    assert "part-00.tfrecord: not finite: input `age` (1 of 41 samples); the batch was not applied" in last


def test_other_ids_in_training_than_without_are_an_error_by_name(
    job: Job, schema_file: Path, run_job: RunJob, tmp_path: Path
) -> None:
    data = replace(job.data, train=(f"{tmp_path}/data/part-00*",), shuffle=Shuffle(buffer=0))
    roles = {"ps": RoleSpec(instances=2), "worker": RoleSpec()}
    model, train = Model(entry=f"{OWN}:build_contrary"), Train(pipeline=2)
    run = run_job(replace(job, data=data, roles=roles, model=model, train=train), schema_file)
    run.start_servers()
    assert run.wait(run.start("worker", 0)) == 1
    last = run.stderr("worker:0").splitlines()[-1]
    assert last.startswith("afo.errors.ModelError: "), last
    assert "is asked for other ids in training than without" in last

"""What a worker says of a training that runs away: of hash tables as of dense ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from afo.job import Data, Embedding, Job, Model, Optimizer, OptimizerChoice, RoleSpec, Sgd, Train
from click_records import write_files
from training_job import JobRun

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("storage", "pipeline"), [("dense", 1), ("hash_table", 0)])
def test_the_step_and_what_was_not_finite_are_named(
    tmp_path: Path,
    schema_file: Path,
    run_job: Callable[..., JobRun],
    storage: Literal["dense", "hash_table"],
    pipeline: int,
) -> None:
    write_files(tmp_path / "data", 1, 500)
    job = Job(
        name="clicks",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=32),
        model=Model(hidden_units=(4,), embedding=Embedding(dim=2, storage=storage)),
        optimizer=Optimizer(deep=OptimizerChoice(sgd=Sgd(learning_rate=1e30))),
        train=Train(pipeline=pipeline),
    )
    run = run_job(job, schema_file)
    run.start_servers()
    assert run.wait(run.start("worker", 0)) == 1
    last = run.stderr("worker:0").splitlines()[-1]
    assert last.startswith("afo.errors.NotFinite: step ")
    assert "part-00.tfrecord: not finite: " in last
    assert last.endswith("the batch was not applied")

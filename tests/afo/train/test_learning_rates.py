"""`optimizer.schedule` in a job: each step has the rate of its number, also after the job was restored."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.job import Data, Job, Model, Optimizer, RoleSpec, Schedule, Train
from afo.train.checkpoint import CheckpointReader
from click_records import expected_acks, write_files
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

RunJob = Callable[..., JobRun]
SCHEDULE = Schedule(warmup_steps=4, decay="linear", decay_steps=8, floor=0.25)
#: By hand: a quarter more each step, the whole rate twice, an eighth less of what is above the floor each step.
RATES = (0.25, 0.5, 0.75, 1.0, 1.0, 0.90625, 0.8125, 0.71875, 0.625, 0.53125, 0.4375, 0.34375, 0.25, 0.25)


def moved(run: JobRun, scratch: Path) -> tuple[int, float]:
    """Steps, and by how much all of them have moved the weight."""
    final = run.master.checkpoints[-1]
    with CheckpointReader(final.manifest, scratch) as reader:
        return final.step, -float(reader.whole("dense")[0])


def test_a_restored_job_goes_on_with_the_rate_of_its_step(tmp_path: Path, schema_file: Path, run_job: RunJob) -> None:
    write_files(tmp_path / "data", 1, 1000)
    job = Job(
        name="rates",
        roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=64),
        model=Model(entry=f"{Path(__file__).parents[2]}/support/own_rate.py:build"),
        optimizer=Optimizer(schedule=SCHEDULE),
        train=Train(max_steps=6),
    )
    first = run_job(job, schema_file)
    first.start_servers()
    first.finish(first.start("worker", 0))
    assert moved(first, tmp_path / "read") == (6, pytest.approx(sum(RATES[:6])))
    report = first.master.checkpoints[-1]
    first.close()

    longer = replace(job, train=Train(max_steps=len(RATES)))
    again = run_job(longer, schema_file, directory=first.directory, generation=2, restore=report.manifest)
    again.master.take_up(report.positions, expected_acks(1, 1000))
    again.start_servers()
    again.finish(again.start("worker", 0))
    assert moved(again, tmp_path / "read") == (len(RATES), pytest.approx(sum(RATES)))

"""`optimizer.schedule` in a job: each step has the rate of its number, also after the job was restored."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.checkpoint.restore import CheckpointReader
from afo.job import Data, Job, Model, Optimizer, RoleSpec, Schedule, Train
from click_records import expected_acks, write_files
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

RunJob = Callable[..., JobRun]
SCHEDULE = Schedule(warmup_steps=4, decay="linear", decay_steps=8, floor=0.25)
#: By hand: a quarter more each step, the whole rate twice, an eighth less of what is above the floor each step.
RATES = (0.25, 0.5, 0.75, 1.0, 1.0, 0.90625, 0.8125, 0.71875, 0.625, 0.53125, 0.4375, 0.34375, 0.25, 0.25)
#: A job of eight steps, cooled over the last four: after the fourth it falls by a quarter of .98 each step.
COOLDOWN = Schedule(cooldown=0.5, steps=8)
COOLED = (1.0, 1.0, 1.0, 1.0, 1.0, 0.755, 0.51, 0.265, 0.02)


def moved(run: JobRun, scratch: Path) -> tuple[int, float]:
    """Steps, and by how much all of them have moved the weight."""
    final = run.master.checkpoints[-1]
    with CheckpointReader(final.manifest, scratch) as reader:
        return final.step, -float(reader.whole("dense")[0])


def job_of(folder: Path, schedule: Schedule) -> Job:
    """Six steps, each of which moves one weight by the rate."""
    write_files(folder / "data", 1, 1000)
    return Job(
        name="rates",
        roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{folder}/data/part-*",), sample_id="sample_id", batch_size=64),
        model=Model(entry=f"{Path(__file__).parents[2]}/support/user_models/shown_rate.py:build"),
        optimizer=Optimizer(schedule=schedule),
        train=Train(max_steps=6),
    )


@pytest.mark.parametrize(
    ("schedule", "begun", "rates"),
    [
        pytest.param(SCHEDULE, 0, RATES, id="restored"),
        pytest.param(COOLDOWN, 0, COOLED, id="cooled"),
        pytest.param(COOLDOWN, 6, COOLED[:6] + COOLED, id="begun with a model of six steps"),
    ],
)
def test_a_job_goes_on_with_the_rate_of_its_step(
    schedule: Schedule, begun: int, rates: tuple[float, ...], tmp_path: Path, schema_file: Path, run_job: RunJob
) -> None:
    job = job_of(tmp_path, schedule)
    first = run_job(job, schema_file)
    first.start_servers()
    first.finish(first.start("worker", 0))
    assert moved(first, tmp_path / "read") == (6, pytest.approx(sum(rates[:6])))
    report = first.master.checkpoints[-1]
    first.close()

    longer = replace(job, train=Train(max_steps=len(rates) - begun))
    again = run_job(longer, schema_file, directory=first.directory, generation=2, restore=report.manifest)
    again.master.first_step = begun
    again.master.take_up(report.positions, expected_acks(1, 1000))
    again.start_servers()
    again.finish(again.start("worker", 0))
    assert moved(again, tmp_path / "read") == (len(rates), pytest.approx(sum(rates)))

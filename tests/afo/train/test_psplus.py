"""Jobs on parameter servers of our own: real processes on a small data set."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.formats.units import Interval
from afo.job import Checkpoint, Data, Embedding, Job, Model, RoleSpec, Shuffle, Train, Wide
from afo.protocol.train_task import WARM_UP
from click_records import expected_acks, write_files
from training_job import JobRun, assert_every_sample_was_applied_once_an_epoch, wait_until

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 6, 1500
RunJob = Callable[..., JobRun]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_files(tmp_path / "data", FILES, RECORDS)
    write_files(tmp_path / "data", 2, 500, "eval", first_id=10**6)
    return Job(
        name="clicks",
        engine="psplus",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2), "evaluator": RoleSpec()},
        data=Data(
            schema="schema.yaml",
            train=(f"{tmp_path}/data/part-*",),
            eval=(f"{tmp_path}/data/eval-*",),
            sample_id="sample_id",
            batch_size=16,
            epochs=2,
            shuffle=Shuffle(buffer=300),
        ),
        model=Model(
            hidden_units=(8,),
            embedding=Embedding(dim=4, storage="hash_table"),
            wide=Wide(crosses=(("city", "age"),), cross_buckets=50),
        ),
    )


@pytest.mark.parametrize("pipeline", [0, 2])
def test_a_job_trains_evaluates_and_exports(job: Job, pipeline: int, schema_file: Path, run_job: RunJob) -> None:
    run = run_job(replace(job, train=Train(pipeline=pipeline)), schema_file)
    run.start_servers()
    names = [run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0)]
    run.finish(*names)
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)
    final = run.master.checkpoints[-1]
    assert final.final
    assert run.master.evals[-1].step == final.step
    assert [each.server for each in final.servers] == [0, 1]
    assert (run.directory / "export" / "saved_model.pb").exists()


@pytest.mark.parametrize(("lost", "pipeline"), [((1,), 0), ((0,), 2), ((0, 1), 0)])
def test_workers_go_on_after_the_loss_of_servers(
    job: Job, lost: tuple[int, ...], pipeline: int, schema_file: Path, run_job: RunJob
) -> None:
    """Without a process of theirs that ends: those of one server and, where none is kept, from the checkpoint alone."""
    train, checkpoint = Train(pipeline=pipeline, eval_every=Interval("1s")), Checkpoint(on_ps_loss="partial")
    run = run_job(replace(job, train=train, checkpoint=checkpoint), schema_file)
    run.start_servers()
    workers = [run.start("worker", 0), run.start("worker", 1)]
    wait_until(lambda: bool(run.master.checkpoints) and trains(run), "a checkpoint is made, and a worker trains on")
    for index in lost:
        run.kill(f"ps:{index}")
    report = run.master.checkpoints[-1]
    run.master.restore = report.manifest
    if len(lost) == len(run.ps):
        run.roll_back(report, expected_acks(FILES, RECORDS))
    run.next_generation(lost)
    run.finish(*workers)
    assert len(run.master.readies) == 2
    assert run.master.readies[1].restored == report.manifest
    assert all(run.progress[name].generation == 2 for name in workers)
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)


def trains(run: JobRun) -> bool:
    return any(each.step > WARM_UP and each.samples > 0 for name, each in run.progress.items() if "worker" in name)

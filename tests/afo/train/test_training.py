"""Two parameter servers, two workers, an evaluator: real processes on a small data set."""

import collections
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from afo.checkpoint.manifest import find_manifests, read_manifest
from afo.data.example import decode
from afo.data.io.tfrecord import read_records
from afo.formats.units import Duration, Interval, Memory
from afo.job import Data, Embedding, Eviction, Export, Filter, Job, Model, RoleSpec, Shuffle, Train, Wide
from afo.ops.library import available
from afo.protocol.train_task import EXIT_RESTART, WARM_UP
from afo.trainable.served import export_info
from afo.trainable.served.export_versions import list_versions
from click_records import CITIES, SCHEMA, expected_acks, write_files
from ipv6 import NEEDS_IPV6
from served_auc import served_auc
from training_job import JobRun, assert_every_sample_was_applied_once_an_epoch, wait_until

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 6, 1500
RunJob = Callable[..., JobRun]


@pytest.fixture
def storage() -> Literal["dense", "hash_table"]:
    """What is said of processes and positions does not depend on it; where it does a test has both."""
    return "hash_table"


@pytest.fixture
def job(tmp_path: Path, storage: Literal["dense", "hash_table"]) -> Job:
    write_files(tmp_path / "data", FILES, RECORDS)
    write_files(tmp_path / "data", 2, 500, "eval", first_id=10**6)
    return Job(
        name="clicks",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2), "evaluator": RoleSpec()},
        data=Data(
            schema="schema.yaml",
            train=(f"{tmp_path}/data/part-*",),
            eval=(f"{tmp_path}/data/eval-*",),
            sample_id="sample_id",
            batch_size=64,
            epochs=2,
            shuffle=Shuffle(buffer=300),
        ),
        model=Model(
            hidden_units=(8,),
            embedding=Embedding(dim=4, storage=storage),
            wide=Wide(crosses=(("city", "age"),), cross_buckets=50),
        ),
    )


def with_pipeline(job: Job, depth: int) -> Job:
    """Of so many steps that most come after the first, which are taken one by one."""
    return replace(job, train=Train(pipeline=depth), data=replace(job.data, batch_size=16)) if depth else job


def trains(run: JobRun, worker: str, pipeline: int) -> bool:
    """Whether it has applied a batch, and where it has a pipeline, several are in flight."""
    said = run.progress.get(worker)
    return said is not None and said.samples > 0 and (not pipeline or said.step > WARM_UP)


def assert_each_version_is_reported_once(run: JobRun) -> None:
    there = list_versions(str(run.directory / "export"))
    assert [each.number for each in there] == [report.version for report in run.master.versions]
    for version, report in zip(there, run.master.versions, strict=True):
        assert (report.manifest, report.step) == (version.exported.manifest, version.exported.step)
        assert report.bytes == sum(file.stat().st_size for file in Path(version.url).rglob("*") if file.is_file())


@pytest.mark.parametrize(("storage", "pipeline"), [("dense", 0), ("hash_table", 2)])
def test_a_job_trains_evaluates_and_exports(job: Job, pipeline: int, schema_file: Path, run_job: RunJob) -> None:
    job = replace(job, train=Train(eval_every=Interval("100 steps"), pipeline=pipeline))
    run = run_job(replace(job, export=Export(user_features=("user", "city"))), schema_file)
    run.start_servers()
    names = [run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0)]
    run.finish(*names)
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)
    final = run.master.checkpoints[-1]
    assert final.final
    saved = [report.step for report in run.master.checkpoints[:-1]]

    assert 1 < len(saved) <= final.step // 100
    assert len({step // 100 for step in saved}) == len(saved), "each passes a multiple of 100 steps"
    measured_steps = {report.step for report in run.master.evals}
    assert measured_steps <= {*saved, final.step}
    passed_over = sum(report.passed_over for report in run.master.evals)
    assert passed_over == len({*saved, final.step} - measured_steps), "each was evaluated or is told of"
    manifest = read_manifest(final.manifest)
    assert [each.server for each in final.servers] == list(range(len(run.ps)))
    assert manifest.servers == final.servers
    assert manifest.seconds
    files = [file for file in (Path(final.manifest).parent / manifest.directory).rglob("*") if file.is_file()]
    told = sum(each.bytes for each in final.servers)
    assert 0.5 < told / sum(file.stat().st_size for file in files) < 1.1, "all that is large is some server's"
    assert (final.hash_tables is None) == (job.model.embedding.storage == "dense")
    assert [(row, count, xor) for row, _, count, xor in final.positions] == [
        (row, *ack) for row, ack in enumerate(expected_acks(FILES, RECORDS))
    ]
    measured = run.master.evals[-1]
    assert measured.final
    assert measured.manifest == final.manifest
    assert measured.metrics["samples"] == 1007
    # The log odds that made the labels reach 0.840 on these files.
    assert measured.metrics["auc"] > 0.82
    assert {run.progress[name].phase for name in names} == {"done"}
    assert run.progress["worker:0"].step == final.step
    assert run.fallen == [], "the Application Master would take what follows for another process's"
    assert all(process.poll() is None for name, process in run.processes.items() if name.startswith("ps"))
    assert list((run.directory / "summaries").rglob("events.out.tfevents.*"))
    assert served_auc(run.directory / "export", schema_file.parent / "data") == pytest.approx(
        measured.metrics["auc"], abs=1e-6
    )
    assert export_info.read(str(run.directory / "export")).user_features == ("user", "city")


@pytest.mark.slow
def test_a_job_whose_tables_have_no_room_in_memory_evaluates_and_exports_them_in_files(
    job: Job, schema_file: Path, run_job: RunJob
) -> None:
    roles = {name: replace(role, memory=Memory(1024)) for name, role in job.roles.items()}
    run = run_job(replace(job, roles=roles, train=Train(eval_every=Interval("100 steps"))), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0))
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)
    for name in ("evaluator:0", "worker:0"):
        assert "are merged in files" in run.stderr(name)
    measured = run.master.evals[-1]
    assert (measured.final, measured.metrics["samples"]) == (True, 1007)
    assert measured.metrics["auc"] > 0.82
    assert served_auc(run.directory / "export", schema_file.parent / "data") == pytest.approx(
        measured.metrics["auc"], abs=1e-6
    )


@pytest.mark.slow
@NEEDS_IPV6
def test_a_job_trains_over_ipv6(job: Job, schema_file: Path, run_job: RunJob) -> None:
    run = run_job(job, schema_file, host="::1")
    assert all(address.startswith("[::1]:") for address in run.ps)
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0))
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)


def test_keys_that_a_filter_keeps_out_have_no_row_and_what_is_served_knows_none_of_them(
    job: Job, tmp_path: Path, run_job: RunJob
) -> None:
    users = replace(SCHEMA.features[0], hash_buckets=None)
    schema_file = tmp_path / "schema.yaml"
    schema_file.write_text(replace(SCHEMA, features=(users, *SCHEMA.features[1:])).to_yaml())
    least, most = 20, 25
    policies = Embedding(dim=4, filter=Filter(min_count=least), evict=Eviction(capacity=most))
    job = replace(job, model=replace(job.model, embedding=policies), export=Export(tables="native"))
    run = run_job(job, schema_file)
    run.start_servers()
    names = [run.start("worker", 0), run.start("worker", 1), run.start("evaluator", 0)]
    run.finish(*names)
    met = collections.Counter(
        int(decode(record)["user"][0])
        for path in sorted((tmp_path / "data").glob("part-*"))
        for record in read_records(str(path))
    )
    admitted = sum(2 * count >= least for count in met.values())
    assert len(met) > 10 * admitted > 20 * most, "of many users few are met often, and more than are kept"
    rows = read_manifest(run.master.checkpoints[-1].manifest).rows
    # Every occurrence of both epochs was counted, on two servers by two workers; then all but a few went.
    assert 0.6 * most < rows["deep/user"] <= most + 32
    said = re.findall(r"evicted (\d+) rows of hash tables at step \d+", run.stderr("worker:0"))
    assert sum(map(int, said)) >= 2 * (admitted - rows["deep/user"])
    told = [report.hash_tables for report in run.master.checkpoints]
    assert sum(each.evicted for each in told if each) == sum(map(int, said))
    assert told[-1] is not None
    assert told[-1].rows == sum(count for name, count in rows.items() if "/" in name)
    assert told[-1].bytes > 40 * told[-1].rows
    assert rows["deep/city"] == rows["wide/city"] == len(CITIES)
    final = run.master.evals[-1]
    assert final.metrics["auc"] > 0.82
    assert export_info.read(str(run.directory / "export")).tables == "native"
    served = served_auc(run.directory / "export", tmp_path / "data", available())
    assert served == pytest.approx(final.metrics["auc"], abs=1e-6)


@pytest.mark.slow
def test_rows_that_are_unused_for_longer_than_a_time_go_at_a_checkpoint(
    job: Job, schema_file: Path, run_job: RunJob
) -> None:
    # At the end every row's last update lies back by more than no time.
    policies = Embedding(dim=4, evict=Eviction(unused_time=Duration(0)))
    alone = {"ps": RoleSpec(instances=2), "worker": RoleSpec()}
    run = run_job(replace(job, roles=alone, model=replace(job.model, embedding=policies)), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0))
    saved = read_manifest(run.master.checkpoints[-1].manifest)
    assert saved.clock[-1][1] == saved.step
    assert {rows for name, rows in saved.rows.items() if "/" in name} == {0}
    assert "rows of hash tables at step" in run.stderr("worker:0")


@pytest.mark.parametrize("pipeline", [0, 2])
def test_a_killed_worker_is_replaced_and_no_sample_is_lost_or_applied_twice(
    job: Job, pipeline: int, schema_file: Path, run_job: RunJob
) -> None:
    """The last version, which is the only one, is reported beside it."""
    job = with_pipeline(job, pipeline)
    run = run_job(replace(job, export=Export(every=Duration(3600))), schema_file)
    run.start_servers()
    names = [run.start("worker", 0), run.start("worker", 1)]
    wait_until(lambda: trains(run, "worker:1", pipeline), "the worker trains")
    run.kill("worker:1")
    assert run.master.task_lost("worker:1") > 0
    run.start("worker", 1)
    run.finish(*names)
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)
    assert_each_version_is_reported_once(run)
    [last] = run.master.versions
    assert (last.manifest, last.step) == (run.master.checkpoints[-1].manifest, run.master.checkpoints[-1].step)
    assert last.seconds is not None


@pytest.mark.slow
def test_a_worker_restarted_in_place_goes_on_with_its_splits(job: Job, schema_file: Path, run_job: RunJob) -> None:
    often = {"train": Train(eval_every=Interval("20 steps")), "export": Export(every=Duration(0.1))}
    run = run_job(replace(job, roles={"ps": RoleSpec(), "worker": RoleSpec()}, **often), schema_file)
    run.start_servers()
    run.start("worker", 0)
    wait_until(lambda: "worker:0" in run.progress and run.progress["worker:0"].samples > 0, "the worker trains")
    run.kill("worker:0")
    first_samples, steps = run.progress["worker:0"].samples, run.progress["worker:0"].step
    run.finish(run.start("worker", 0))
    assert len(run.master.readies) == 1, "the variables were kept"
    assert run.master.checkpoints[-1].step > steps
    all_samples = 2 * sum(count for count, _ in expected_acks(FILES, RECORDS))
    assert run.progress["worker:0"].samples <= all_samples - first_samples
    assert_every_sample_was_applied_once_an_epoch(run, FILES, RECORDS)
    assert_each_version_is_reported_once(run)


@pytest.mark.parametrize(("storage", "pipeline"), [("dense", 0), ("hash_table", 2)])
def test_after_the_loss_of_a_parameter_server_training_goes_on_from_a_checkpoint(
    job: Job, pipeline: int, schema_file: Path, run_job: RunJob, tmp_path: Path
) -> None:
    job = with_pipeline(job, pipeline)
    job = replace(job, train=replace(job.train, eval_every=Interval("1s")))
    run = run_job(job, schema_file, directory=tmp_path / "job")
    run.start_servers()
    workers = [run.start("worker", 0), run.start("worker", 1)]
    wait_until(lambda: bool(run.master.checkpoints) and trains(run, "worker:0", pipeline), "a checkpoint is made")
    run.kill("ps:0")
    assert [run.wait(name) for name in workers] == [EXIT_RESTART] * 2, run.stderr(workers[0])
    assert "Traceback" not in run.stderr(workers[1])
    report = run.master.checkpoints[-1]
    clock = read_manifest(report.manifest).clock
    run.close()
    # Another number of parameter servers may take over.
    job = replace(job, roles={**job.roles, "ps": RoleSpec(instances=3)})
    again = run_job(job, schema_file, directory=tmp_path / "job", generation=2, restore=report.manifest)
    again.master.take_up(report.positions, expected_acks(FILES, RECORDS))
    acked_before = len(again.master.acks)
    again.start_servers()
    again.finish(again.start("worker", 0), again.start("worker", 1))
    after = read_manifest(again.master.checkpoints[-1].manifest).clock
    assert after[: len(clock)] == clock
    assert after[-1][1] == again.master.checkpoints[-1].step
    ready = again.master.readies[0]
    assert (ready.restored, ready.step) == (report.manifest, report.step)
    assert_every_sample_was_applied_once_an_epoch(again, FILES, RECORDS)
    steps_left = again.master.checkpoints[-1].step - report.step
    samples_left = sum(again.progress[f"worker:{index}"].samples for index in range(2))
    done = sum(count for _, _, count, _ in report.positions) + sum(
        expected_acks(FILES, RECORDS)[row][0] * epoch for row, epoch, _, _ in report.positions
    )
    assert samples_left == 2 * sum(count for count, _ in expected_acks(FILES, RECORDS)) - done
    assert steps_left >= samples_left / job.data.batch_size
    assert len(again.master.acks) > acked_before or not samples_left
    assert find_manifests(str(tmp_path / "job" / "checkpoints"))[-1].generation == 2


@pytest.mark.slow
@pytest.mark.parametrize(("max_steps", "pipeline"), [(9, 0), (9, 3), (115, 3)])
def test_training_stops_at_max_steps(
    job: Job, max_steps: int, pipeline: int, schema_file: Path, run_job: RunJob
) -> None:
    roles = {"ps": RoleSpec(), "worker": RoleSpec()}
    run = run_job(replace(job, roles=roles, train=Train(max_steps=max_steps, pipeline=pipeline)), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0))
    assert run.master.checkpoints[-1].step == max_steps
    stale = run.progress["worker:0"].staleness
    assert stale is not None
    assert (stale > 0) == (max_steps > WARM_UP), "its own updates that it did not see, once several are in flight"


def test_bad_data_end_the_worker_with_one_message(job: Job, schema_file: Path, run_job: RunJob) -> None:
    path = schema_file.parent / "data" / "part-00.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    run = run_job(replace(job, roles={"ps": RoleSpec(), "worker": RoleSpec()}), schema_file)
    run.start_servers()
    assert run.wait(run.start("worker", 0)) == 1
    last = run.stderr("worker:0").splitlines()[-1]
    assert last.startswith(f"afo.errors.DataError: {path}: ")
    assert "at offset" in last
    assert "Traceback" not in run.stderr("worker:0")

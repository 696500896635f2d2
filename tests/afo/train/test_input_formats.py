"""Training on inputs as they are: Parquet, sampled negatives, bad records; every record is accounted for."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.data.example import decode, encode
from afo.data.io.tfrecord import RecordWriter, read_records
from afo.job import Data, Embedding, Job, Model, NegativeSampling, RoleSpec, Shuffle
from click_records import as_parquet, expected_acks, splitmix64, write_files
from training_job import JobRun, wait_until

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 3, 1500
RunJob = Callable[..., JobRun]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_files(tmp_path / "data", FILES, RECORDS)
    write_files(tmp_path / "data", 1, 800, "eval", first_id=10**6)
    return Job(
        name="clicks",
        roles={"ps": RoleSpec(), "worker": RoleSpec(), "evaluator": RoleSpec()},
        data=Data(
            schema="schema.yaml", train=(f"{tmp_path}/data/part-*.tfrecord",),
            eval=(f"{tmp_path}/data/eval-*.tfrecord",),
            sample_id="sample_id", batch_size=64, shuffle=Shuffle(buffer=300),
        ),
        model=Model(hidden_units=(8,), embedding=Embedding(dim=4)),
    )  # fmt: skip


def test_parquet_with_sampled_negatives(job: Job, schema_file: Path, run_job: RunJob, tmp_path: Path) -> None:
    for path in (tmp_path / "data").iterdir():
        as_parquet(path, path.with_suffix(".parquet"))
    data = replace(
        job.data, train=(f"{tmp_path}/data/part-*.parquet",), eval=(f"{tmp_path}/data/eval-*.parquet",), epochs=2,
        negative_sampling=NegativeSampling(keep=0.5),
    )  # fmt: skip
    run = run_job(replace(job, data=data), schema_file)
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("evaluator", 0))
    expected = expected_acks(FILES, RECORDS)
    assert run.master.acks == {(row, epoch): expected[row] for row in range(FILES) for epoch in range(2)}
    assert run.progress["worker:0"].samples < 2 * sum(count for count, _ in expected)
    measured = run.master.evals[-1]
    assert measured.metrics["samples"] == 800, "evaluations see every negative"
    assert measured.metrics["auc"] > 0.8
    # A model of half the negatives, not reweighted, would say about 1.3.
    assert measured.metrics["calibration"] == pytest.approx(1.0, abs=0.12)


def test_bad_records_are_counted_alike_however_often_the_reader_is_killed(
    job: Job, schema_file: Path, run_job: RunJob, tmp_path: Path
) -> None:
    from afo.models.hashing import hash_strings

    bad = {0: (3, 700, 1400), 2: (10, 11, 12, 1000)}
    expected = dict(enumerate(expected_acks(FILES, RECORDS)))
    for row, numbers in bad.items():
        spoilt = spoil(tmp_path / "data" / f"part-{row:02d}.tfrecord", numbers)
        count, xor = expected[row]
        for each, hashed in zip(numbers, hash_strings(spoilt).numpy().tolist(), strict=True):
            first_id = sum(RECORDS + 7 * earlier for earlier in range(row))
            xor ^= splitmix64(first_id + each) ^ (hashed % 2**64)
        expected[row] = (count, xor)
    run = run_job(replace(job, data=replace(job.data, max_bad_records=0.01)), schema_file)
    run.start_servers()
    run.start("worker", 0)
    wait_until(lambda: "worker:0" in run.progress and run.progress["worker:0"].samples > 0, "the worker trains")
    run.kill("worker:0")
    run.finish(run.start("worker", 0))
    assert run.master.acks == {(row, 0): ack for row, ack in expected.items()}
    assert run.master.bad == {(row, 0): len(bad.get(row, ())) for row in range(FILES)}


def spoil(path: Path, numbers: tuple[int, ...]) -> list[bytes]:
    """Takes the label out of some records; returns those."""
    records = list(read_records(str(path)))
    for number in numbers:
        features = {name: values for name, values in decode(records[number]).items() if name != "label"}
        records[number] = encode(features)
    with RecordWriter(str(path)) as writer:
        writer.write_all(records)
    return [records[number] for number in numbers]

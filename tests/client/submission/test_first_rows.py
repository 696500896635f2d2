"""`afo submit --limit`: the first records of the real data, in a job that leaves everything else alone."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afo.data.example import encode
from afo.data.io.parquet import rows
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import RecordWriter, compression_of, read_records
from afo.data.prepare.first_records import first_parts, suffix, write_part
from afo.errors import DataError, UsageError
from afo.formats import units
from afo.job import Data, Job
from afo.job.smoke import smoke_job
from afo_client.cli.main import run
from fake_runtime import made_by_another, small_job, use_fake_runtime


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of 3, 4 and 5 records."""
    folder = small_job(tmp_path, monkeypatch)
    for name, count in (("a", 3), ("b", 4), ("c", 5)):
        with RecordWriter(str(folder / f"{name}.tfrecord"), "gzip" if name == "b" else "none") as writer:
            writer.write_all(encode({"x": [0.5], "label": [number % 2], "n": [number]}) for number in range(count))
    return folder


def submit(folder: Path, *arguments: str) -> int:
    return run(["submit", str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02", *arguments])


def test_the_first_records_are_trained_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    settings = ["--set", "roles.worker.instances=6", "--set", "data.epochs=3", "--set", "tags.a=b"]
    assert submit(folder, "--limit", "5", *settings) == 0
    config = fake.submitted[0][0]
    assert [Path(url).name for url in config.train_files] == ["part-0.tfrecord", "part-1.tfrecord"]
    assert config.train_files == config.job.data.train == config.eval_files
    assert str(Path(config.train_files[0]).parents[1]) == f"{config.jobs_root}/rows-{config.user}"
    first, second = config.train_files
    assert list(read_records(first)) == list(read_records(str(folder / "a.tfrecord")))
    assert list(read_records(second)) == list(read_records(str(folder / "b.tfrecord")))[:2]
    assert (compression_of(first), compression_of(second)) == ("none", "gzip")
    assert [size for size, _ in config.train_stats] == [Path(url).stat().st_size for url in config.train_files]
    job = config.job
    assert (job.name, job.data.epochs, job.roles["worker"].count, job.roles["ps"].count) == (
        "clicks (first 5)",
        1,
        1,
        2,
    )
    assert (job.export.dir, job.tags) == ("", {"a": "b"})
    modified = Path(first).stat().st_mtime_ns
    assert submit(folder, "--limit", "5") == 0
    assert fake.submitted[1][0].train_files == config.train_files
    assert Path(first).stat().st_mtime_ns == modified


def test_other_rows_are_other_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    assert submit(folder, "--limit", "1") == 0
    assert submit(folder, "--limit", "1000") == 0
    few, all_of_them = (submitted[0].train_files for submitted in fake.submitted)
    assert (len(few), len(all_of_them)) == (1, 3)
    assert not set(few) & set(all_of_them)


def test_a_dry_run_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(folder, "--limit", "4", "--dry-run") == 0
    plan = json.loads(capsys.readouterr().out)
    config = plan["submission"]["am_config"]
    assert (len(config["train_files"]), config["job"]["name"]) == (2, "clicks (first 4)")
    assert [task["task"] for task in plan["tasks"]] == ["worker:0", "ps:0", "ps:1", "evaluator:0"]
    assert not list((folder / "state" / "jobs").glob("rows*"))


def test_records_that_another_user_may_have_put_there_are_not_trained_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    assert submit(folder, "--limit", "5") == 0
    made_by_another(monkeypatch, Path(fake.submitted[0][0].train_files[0]).parents[1])
    assert submit(folder, "--limit", "5") == 4
    assert "was made by another user" in capsys.readouterr().err
    assert len(fake.submitted) == 1


def job(**changes: Any) -> Job:
    data = {
        "name": "n" * 200,
        "roles": {
            "ps": {"instances": 3},
            "worker": {"instances": {"min": 2, "max": 9}, "memory": "3g"},
            "evaluator": {},
        },
        "data": {"train": ["t"], "eval": ["e"], "wait_for": "_SUCCESS"},
        "checkpoint": {"dir": "/models/c", "warm_start": "/models/yesterday"},
        "export": {"dir": "/models/e", "checkpoint": "best", "require": {"auc": ">=0.7"}},
        "train": {"early_stop": {}},
    }
    return msgspec.convert({**data, **changes}, Job, dec_hook=units.parse_quantity)


def test_a_smoke_run_touches_no_place_of_the_job() -> None:
    small = smoke_job(job(), 100)
    assert small.name.endswith("n (first 100)")
    assert len(small.name) == 200
    assert (small.roles["worker"].count, small.roles["ps"].count, int(small.roles["worker"].memory)) == (1, 3, 3072)
    assert (small.checkpoint.dir, small.export.dir, small.export.require, small.export.checkpoint) == (
        "",
        "",
        {},
        "best",
    )
    # A model's callbacks may say the same, and are compared with it.
    assert small.train == job().train
    assert smoke_job(job(train={}), 100).export.checkpoint == "last", "which waits for no evaluation"
    assert small.checkpoint.warm_start == "/models/yesterday"
    assert small.data.wait_for == ""
    assert {small.restart.of(role).max for role in small.roles} == {0}


def test_a_program_has_no_rows_of_ours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--limit: a `program` reads its data by itself"):
        smoke_job(job(program="/x.py", train={}, export={}), 5)
    with pytest.raises(UsageError, match="over 0 records is none"):
        smoke_job(job(), 0)
    assert submit(folder, "--limit", "0") == 2
    assert "'--limit': 0 is not in the range" in capsys.readouterr().err


def test_rows_of_parquet(tmp_path: Path) -> None:
    for name, numbers in (("a", [1, 2]), ("b", [3, 4, 5])):
        pq.write_table(
            pa.table({"x": numbers, "y": [[number] * 2 for number in numbers]}), tmp_path / f"{name}.parquet"
        )
    data = Data(train=("*",))
    parts = first_parts(find_splits([f"{tmp_path}/*.parquet"]), data, 4)
    assert [part.records for part in parts] == [2, 2]
    assert suffix(parts[1].file, data) == ".parquet"
    write_part(parts[1], data, str(tmp_path / "out.parquet"))
    assert [int(row["x"][0]) for row in rows(str(tmp_path / "out.parquet"))] == [3, 4]
    assert pq.read_schema(tmp_path / "out.parquet") == pq.read_schema(tmp_path / "b.parquet")


def test_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with RecordWriter(str(path)) as writer:
        writer.write_all([b"one", b"two", b"three"])
    content = bytearray(path.read_bytes())
    content[content.index(b"two")] ^= 1
    path.write_bytes(content)
    files = find_splits([str(path)])
    with pytest.raises(DataError, match=r"a\.tfrecord.*wrong checksum"):
        first_parts(files, Data(train=("*",)), 2)
    tolerant = Data(train=("*",), max_bad_records=0.5)
    parts = first_parts(files, tolerant, 2)
    write_part(parts[0], tolerant, str(tmp_path / "out"))
    assert list(read_records(str(tmp_path / "out"))) == [b"one", b"three"]
    path.write_bytes(b"")
    with pytest.raises(DataError, match="there are no records in this file, nor in 0 more"):
        first_parts(files, tolerant, 2)

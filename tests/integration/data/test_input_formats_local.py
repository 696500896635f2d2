"""A whole job on inputs as they are: Parquet, markers, no schema, bad rows, sampled negatives."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from afo.data.schema import read_schema
from afo.events import types as ev
from click_records import as_parquet, write_files
from live_job import afo

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 3, 600


def write_inputs(folder: Path) -> None:
    """Directories `train`, with three bad rows, and `eval`."""
    for name, files, first_id in (("train", FILES, 0), ("eval", 1, 10**6)):
        write_files(folder / "records" / name, files, RECORDS, first_id=first_id)
        (folder / name).mkdir()
        for path in (folder / "records" / name).iterdir():
            as_parquet(path, folder / name / f"{path.stem}.snappy.parquet")
        (folder / name / "_SUCCESS").touch()
    table = pq.read_table(folder / "train" / "part-01.snappy.parquet").to_pydict()
    for row in (13, 14, 500):
        table["label"][row] = None
    pq.write_table(pa.table(table), folder / "train" / "part-01.snappy.parquet")


def test_a_job_reads_inputs_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    write_inputs(tmp_path)
    job = {
        "name": "as they are",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "1 GiB"}, "evaluator": {"memory": "1 GiB"}},
        "data": {
            "train": ["train/part-*"], "eval": ["eval/*"], "wait_for": "_SUCCESS", "sample_id": "sample_id",
            "batch_size": 64, "max_bad_records": 0.01, "negative_sampling": {"keep": 0.5},
        },
        "model": {"hidden_units": [4], "embedding": {"dim": 2, "hash_buckets": 1000}},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    done = afo("submit", str(tmp_path / "job.yaml"), "--runtime", "local", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["bad_records"]) == ("SUCCEEDED", 3)
    assert answer["metrics"]["samples"] == RECORDS, "evaluations see every negative"
    directory = tmp_path / "jobs" / answer["application_id"]
    assert read_schema(directory / "schema.yaml").names == ("age", "city", "liked", "user")
    splits = [
        event
        for path in (directory / "events").iterdir()
        for line in path.read_text().splitlines()
        if (event := json.loads(line)["event"])["type"] == ev.SplitDone.__name__
    ]
    expected = {row: RECORDS + 7 * row - (3 if row == 1 else 0) for row in range(FILES)}
    assert {event["split"]: event["count"] for event in splits} == expected
    [spoilt] = [event for event in splits if event["split"] == 1]
    assert (spoilt["bad"], spoilt["unread"]) == (3, 3)
    assert "part-01.snappy.parquet: row 13: it lacks a value of `label`" in spoilt["first_bad"]
    recount = afo("check", answer["application_id"], "--json")
    assert recount.returncode == 0, recount.stdout + recount.stderr
    assert json.loads(recount.stdout)["records"] == sum(expected.values()), "sampled negatives and bad records as read"

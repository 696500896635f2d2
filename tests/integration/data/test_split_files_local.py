"""A job whose one large file is read by two workers."""

import functools
import operator
from pathlib import Path

import pytest
import yaml

from afo.events import types as ev
from afo.job_dir.lineage import read_files
from click_records import SCHEMA, expected_acks, write_files
from live_job import LiveJob, afo

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]

RECORDS, EPOCHS = 60_000, 2


def test_two_workers_share_a_file_and_each_sample_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    write_files(tmp_path / "train", 1, RECORDS)
    [file] = (tmp_path / "train").iterdir()
    (tmp_path / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "one file",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1 GiB"}},
        "data": {
            "schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 64,
            "epochs": EPOCHS, "split_size": "1 MiB",
        },
        "model": {"hidden_units": [4], "embedding": {"dim": 2}},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert afo("data", "index", str(file)).returncode == 0
    done = LiveJob.submit(tmp_path / "job.yaml", str(tmp_path / "jobs"), "--runtime", "local")
    assert afo("wait", done.id).returncode == 0
    splits = done.events(ev.SplitDone)
    rows = {split.split for split in splits}
    [added] = done.events(ev.SplitsAdded)
    assert len(rows) == len(added.splits) > 5
    assert sorted((split.split, split.epoch) for split in splits) == [(row, e) for row in sorted(rows) for e in (0, 1)]
    assert {split.task.index for split in splits} == {0, 1}, "both workers had their share of the file"
    [(count, xor)] = expected_acks(1, RECORDS)
    for epoch in range(EPOCHS):
        parts = [split for split in splits if split.epoch == epoch]
        assert sum(split.count for split in parts) == count
        assert functools.reduce(operator.xor, (split.xor for split in parts)) == xor
    parts_read = [each.part for each in read_files(done.paths.files)]
    assert all(part is not None for part in parts_read)
    assert f"{file}:0+" in afo("lineage", done.id).stdout
    assert afo("lineage", done.id, "--check").returncode == 0

"""Statistics of features that a submission keeps: of which files, how far, and what keeps no job from starting."""

from pathlib import Path

import pytest

from afo.data.example import encode
from afo.data.io.split_files import SplitFile
from afo.data.io.tfrecord import RecordWriter
from afo.job import Data, Job, RoleSpec
from afo_client.submission import history_files as fs
from afo_client.submission.inspection import Inspection

SCHEMA = b"{features: [{name: age, kind: dense}], label: click}"


def inspected(folder: Path, rows: int, files: int = 1) -> Inspection:
    for number in range(files):
        with RecordWriter(str(folder / f"part-{number}")) as writer:
            for row in range(rows):
                writer.write(encode({"age": [float(row)], "click": [row % 2], "unused": list(range(1000))}))
    found = tuple(SplitFile(str(path), path.stat().st_size) for path in sorted(folder.glob("part-*")))
    return Inspection(SCHEMA, found, found[:1])


def job(**changes: object) -> Job:
    roles = {"ps": RoleSpec(), "worker": RoleSpec()}
    return Job(name="a", roles=roles, data=Data(schema="s", train=("a",), label="click"), **changes)  # type: ignore[arg-type]


def test_the_schema_s_features_of_some_records(tmp_path: Path) -> None:
    found = fs.feature_statistics(job(), inspected(tmp_path, 600, files=9))
    assert found is not None
    assert (found.label, found.positive, found.records, found.evaluation) == ("click", 0.5, 3 * 500, 500)
    assert [each.name for each in found.features] == ["age"]
    assert found.features[0].drift is not None


def test_no_more_values_are_read_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fs, "_VALUES", 100)
    found = fs.feature_statistics(job(), inspected(tmp_path, 600))
    assert found is not None
    assert (found.records, found.evaluation) == (50, 50)


def test_data_that_cannot_be_read_keep_no_job_from_starting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(tmp_path, 20)
    with (tmp_path / "part-0").open("r+b") as file:
        file.seek(40)
        file.write(b"damage")
    assert fs.feature_statistics(job(), found) is None
    assert "warning: no statistics of the features are kept: " in capsys.readouterr().err
    assert fs.feature_statistics(job(program="train.py"), found) is None

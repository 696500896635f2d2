"""Synthetic data sets: complete, known, and written once."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from afo.data.example import decode
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import compression_of, read_records
from afo.data.model_metrics import auc, log_loss
from afo.data.schema import read_schema
from afo.data.synthetic.clicks import Answer, SynthParameters, synthesize
from afo.data.synthetic.data_set import read_answer
from afo.data.synthetic.teacher import Categorical, Teacher, TeacherSpec, sigmoid
from afo.errors import DataError

TEACHER = TeacherSpec(
    categorical=(Categorical("a", 300, 1.0), Categorical("b", 20, 0.5, latent=1.0)), crosses=(("a", "b"),), seed=3
)
PARAMETERS = SynthParameters(train=1000, eval=501, train_files=3, eval_files=2, teacher=TEACHER)


def write(path: Path, parameters: SynthParameters = PARAMETERS, processes: int = 1) -> tuple[Answer, list[int]]:
    steps: list[int] = []
    return synthesize(str(path), parameters, processes, steps.append), steps


def records(path: Path, part: str) -> list[dict[str, list[float]]]:
    urls = [split.url for split in find_splits([str(path / part / "*")])]
    decoded = (decode(record) for url in urls for record in read_records(url))
    return [{name: values.tolist() for name, values in record.items()} for record in decoded]


def state(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(each.relative_to(path)): (each.read_bytes(), each.stat().st_mtime_ns)
        for each in path.rglob("*")
        if each.is_file()
    }


def test_the_answer_is_that_of_the_teacher_on_the_records(tmp_path: Path) -> None:
    answer, steps = write(tmp_path)
    assert sum(steps) == 1501
    train, evaluation = records(tmp_path, "train"), records(tmp_path, "eval")
    assert sorted(record["sample_id"][0] for record in train + evaluation) == list(range(1501))
    ids = {name: np.array([record[name][0] for record in evaluation]) for name in ("a", "b")}
    dense = np.array([[record[name][0] for name in TEACHER.dense] for record in evaluation], np.float32)
    probability = sigmoid(Teacher(TEACHER).logit(ids, dense))
    label = [record["click"][0] for record in evaluation]
    assert answer.auc == pytest.approx(auc(label, probability), abs=1e-12)
    assert answer.log_loss == pytest.approx(log_loss(label, probability), abs=1e-12)
    assert (answer.train_records, answer.eval_records, answer.eval_positives) == (1000, 501, sum(label))
    assert read_answer(str(tmp_path), Answer) == answer


def test_the_schema_fits_the_records(tmp_path: Path) -> None:
    write(tmp_path)
    schema = read_schema(tmp_path / "schema.yaml")
    schema.validate_against(
        [decode(record) for record in read_records(str(tmp_path / "train/part-00000.tfrecord"))], "f"
    )
    assert (schema.label, schema.sample_id) == ("click", "sample_id")


def test_the_same_parameters_do_nothing_the_second_time(tmp_path: Path) -> None:
    answer, _ = write(tmp_path)
    before = state(tmp_path)
    assert write(tmp_path) == (answer, [1501])
    assert state(tmp_path) == before


def test_a_missing_file_is_written_again(tmp_path: Path) -> None:
    write(tmp_path)
    before = {name: data for name, (data, _) in state(tmp_path).items()}
    (tmp_path / "eval/part-00001.tfrecord").unlink()
    write(tmp_path)
    assert {name: data for name, (data, _) in state(tmp_path).items()} == before


def test_other_parameters_replace_the_data_set(tmp_path: Path) -> None:
    write(tmp_path)
    changed = msgspec.structs.replace(PARAMETERS, train=10, train_files=1, compression="gzip")
    write(tmp_path, changed)
    assert sorted(each.name for each in (tmp_path / "train").iterdir()) == ["part-00000.tfrecord.gz"]
    assert compression_of(str(tmp_path / "train/part-00000.tfrecord.gz")) == "gzip"
    assert len(records(tmp_path, "train")) == 10
    assert len(records(tmp_path, "eval")) == 501


def test_processes_write_the_same_bytes(tmp_path: Path) -> None:
    answer, _ = write(tmp_path / "one")
    assert write(tmp_path / "two", processes=2)[0] == answer
    one, two = ({name: data for name, (data, _) in state(tmp_path / each).items()} for each in ("one", "two"))
    assert one == two


def test_an_unfinished_data_set_has_no_answer(tmp_path: Path) -> None:
    assert read_answer(str(tmp_path), Answer) is None
    (tmp_path / "answer.json").write_text("{")
    with pytest.raises(DataError, match=r"answer.json: no answer file that this version of afo understands"):
        read_answer(str(tmp_path), Answer)


def test_more_files_than_records() -> None:
    with pytest.raises(DataError, match="eval: 2 records in 3 files"):
        SynthParameters(train=5, eval=2, train_files=5, eval_files=3)

"""Scores over files: which records count, how often a feature is held, how many may be bad."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import json

tf = pytest.importorskip("tensorflow")

from afo.data.example import decode, encode  # noqa: E402
from afo.data.io.split_files import find_splits  # noqa: E402
from afo.data.io.tfrecord import RecordWriter, read_records  # noqa: E402
from afo.errors import DataError  # noqa: E402
from afo.job import Data  # noqa: E402
from afo.job_dir.lineage import Evaluation  # noqa: E402
from afo.models.parser import parser_of  # noqa: E402
from afo.train.offline.observers import Scored  # noqa: E402
from afo.train.offline.scoring import Scorer  # noqa: E402
from click_records import SCHEMA, as_parquet, write_files  # noqa: E402

pytestmark = pytest.mark.tensorflow


class ByAge(tf.Module):  # type: ignore[misc]  # TensorFlow is untyped
    """Older people click."""

    def probabilities(self, features: dict[str, Any]) -> Any:
        return tf.sigmoid(features["age"] / 15 - 3)

    def metrics(self, labels: Any, probabilities: Any) -> dict[str, float]:
        return {
            "auc": 2.0,
            "auc_drop": 3.0,
            "none": math.nan,
            "positives": float(labels.sum()),
            "promised": float(probabilities.sum()),
        }


def scorer(data: Data, scratch: Path) -> Scorer:
    return Scorer(SCHEMA, parser_of(SCHEMA, data), data, scratch)


def test_both_formats_score_alike(tmp_path: Path) -> None:
    write_files(tmp_path, 2, 200)
    for path in tmp_path.glob("*.tfrecord"):
        as_parquet(path, path.with_suffix(".parquet"))
    found = [
        scorer(data, tmp_path).evaluate(ByAge(), find_splits(data.train))
        for data in (Data(train=(f"{tmp_path}/*.{kind}",)) for kind in ("tfrecord", "parquet"))
    ]
    assert found[0] == found[1]
    assert found[0].metrics["samples"] == 407
    assert found[0].coverage["age"] == 1.0
    assert 0.5 < found[0].metrics["auc"] < 1.0
    # The model's own stand beside; a name that is taken stays what it is, and what is no number is left out.
    assert (found[0].metrics["keras_auc"], found[0].metrics["keras_auc_drop"]) == (2.0, 3.0)
    assert found[0].metrics.keys() & {"none", "auc_drop"} == set()
    assert json.decode(json.encode(found[0]), type=Evaluation) == found[0], "as tomorrow's job reads it"
    assert found[0].metrics["calibration"] == pytest.approx(
        found[0].metrics["promised"] / found[0].metrics["positives"], rel=1e-5
    )


def test_an_observer_is_told_of_all_scores_in_the_order_of_the_records(tmp_path: Path) -> None:
    write_files(tmp_path, 2, 200)
    data = Data(train=(f"{tmp_path}/*.tfrecord",))
    seen: list[float] = []

    class Labels:
        def observe(self, scored: Scored) -> None:
            seen.extend(scored.labels[:, 0].tolist())

    files = find_splits(data.train)
    scorer(data, tmp_path).observe(ByAge(), files, [Labels()])
    assert seen == [float(decode(record)["label"][0]) for file in files for record in read_records(file.url)]


def test_bad_records_are_left_out_and_judged_by_their_share(tmp_path: Path) -> None:
    write_files(tmp_path, 1, 200)
    path = tmp_path / "part-00.tfrecord"
    records = list(read_records(str(path)))
    for number in (5, 190):
        records[number] = encode({name: values for name, values in decode(records[number]).items() if name != "label"})
    with RecordWriter(str(path)) as writer:
        writer.write_all(records)
    data = Data(train=(str(path),), max_bad_records=0.01)
    files = find_splits(data.train)
    assert scorer(data, tmp_path).evaluate(ByAge(), files).metrics["samples"] == 198
    stricter = msgspec.structs.replace(data, max_bad_records=0.009)
    with pytest.raises(DataError, match=r"2 of 200 records of the files are bad, .* a share of 0\.009"):
        scorer(stricter, tmp_path).evaluate(ByAge(), files)
    none = msgspec.structs.replace(data, max_bad_records=0.0)
    with pytest.raises(DataError, match=rf"{path}: record at offset \d+: it holds 0 values of `label`"):
        scorer(none, tmp_path).evaluate(ByAge(), files)


@pytest.mark.parametrize("kind", ["tfrecord", "parquet"])
def test_a_label_that_is_neither_0_nor_1_is_a_bad_record(tmp_path: Path, kind: str) -> None:
    """Its log loss would be any number, also one below 0."""
    write_files(tmp_path, 1, 200)
    path = tmp_path / "part-00.tfrecord"
    records = list(read_records(str(path)))
    for number, label in ((5, 2), (190, -1)):
        records[number] = encode({**decode(records[number]), "label": [label]})
    with RecordWriter(str(path)) as writer:
        writer.write_all(records)
    as_parquet(path, path.with_suffix(".parquet"))
    data = Data(train=(str(path.with_suffix(f".{kind}")),), max_bad_records=0.01)
    files = find_splits(data.train)
    assert scorer(data, tmp_path).evaluate(ByAge(), files).metrics["samples"] == 198
    none = msgspec.structs.replace(data, max_bad_records=0.0)
    place = {"tfrecord": r"record at offset \d+", "parquet": "row 5"}[kind]
    with pytest.raises(DataError, match=rf"{files[0].url}: {place}: the label `label` is 2 and must be 0 or 1"):
        scorer(none, tmp_path).evaluate(ByAge(), files)


def test_without_records_there_is_no_metric(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    data = Data(train=(str(tmp_path / "empty"),))
    with pytest.raises(DataError, match="label `label`: no samples"):
        scorer(data, tmp_path).evaluate(ByAge(), find_splits(data.train))

"""Looking at data: what is reported, and the schema inferred from it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter
from afo.data.prepare.infer import infer_for_job, infer_schema, text_of
from afo.data.prepare.inspect import FileReport, Report, _boundaries, inspect_files
from afo.data.schema import Schema, parse_schema
from afo.errors import DataError
from afo.job import Data


def write(path: Path, records: list[dict[str, list[object]]], compression: str = "none") -> str:
    with RecordWriter(str(path), compression) as writer:
        writer.write_all([encode(record) for record in records])
    return str(path)


RECORDS: list[dict[str, list[object]]] = [
    {"click": [0], "sample_id": [10], "city": ["a"], "x": [0.5, -1.5], "tags": [3, 4]},
    {"click": [1], "sample_id": [11], "city": ["b"], "x": [2.5, 0.5], "tags": [3]},
    {"click": [1], "sample_id": [12], "x": [2.5, 0.5], "tags": []},
]


def test_the_report(tmp_path: Path) -> None:
    plain = write(tmp_path / "part-0", RECORDS)
    packed = write(tmp_path / "part-1", RECORDS * 2, "gzip")
    report = inspect_files([str(tmp_path / "*")], records=3, count=True)
    sizes = [Path(each).stat().st_size for each in (plain, packed)]
    assert report.files == (FileReport(plain, sizes[0], "none", 3), FileReport(packed, sizes[1], "gzip", 6))
    assert report.looked_at == 6
    features = {each.name: each for each in report.features}
    assert list(features) == ["city", "click", "sample_id", "tags", "x"]
    city, x, tags = features["city"], features["x"], features["tags"]
    assert (city.kind, city.present, city.distinct, city.min, city.max) == ("bytes", 4, 2, None, None)
    assert (x.kind, x.present, x.min_length, x.max_length, x.min, x.max) == ("float", 6, 2, 2, -1.5, 2.5)
    assert (tags.min_length, tags.max_length, tags.distinct) == (0, 2, 2)


def test_only_the_first_files_and_records_are_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "part-0", RECORDS)
    (tmp_path / "part-1").write_bytes(b"not read")
    report = inspect_files([str(tmp_path / "*")], records=2, files=1)
    assert report.looked_at == 2
    assert [file.records for file in report.files] == [None, None]


def test_the_inferred_schema(tmp_path: Path) -> None:
    schema, notes = inferred(inspect_files([write(tmp_path / "a", RECORDS)]))
    assert (schema.label, schema.sample_id) == ("click", "sample_id")
    assert schema.features == (
        Feature(name="city", kind="string"),
        Feature(name="tags", kind="categorical", max_length=2),
        Feature(name="x", kind="dense", shape=(2,)),
    )
    assert notes == ["tags held 0 to 2 values: is that its `max_length`?"]


def test_numbers_are_described_as_a_model_reads_them_best(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    records: list[dict[str, list[object]]] = [
        {
            "even": [float(n % 400)],
            "gain": [0.0 if n % 10 else float(np.exp(generator.normal(6, 2)))],
            "flag": [n % 2 / 1],
        }
        | ({"sometimes": [float(n % 3)]} if n % 4 else {})
        for n in range(800)
    ]
    report = inspect_files([write(tmp_path / "a", records)])
    schema, _ = inferred(report)
    assert schema["even"] == Feature(name="even", kind="dense", buckets=tuple(float(n) for n in range(25, 400, 25)))
    assert schema["flag"] == Feature(name="flag", kind="dense")
    assert schema["sometimes"] == Feature(name="sometimes", kind="dense", buckets=(1.0, 2.0), missing_indicator=True)
    gain = schema["gain"]
    assert (gain.transform, gain.missing_indicator, len(gain.buckets)) == ("log1p", False, 15)
    assert gain.buckets[0] > 0, "the value that most records hold is alone in its interval"
    assert parse_schema(schema.to_yaml(), "schema.yaml") == schema
    plain, _ = infer_for_job(report.features, report.looked_at, Data(train=("x",), label="flag"), transformed=False)
    assert [each.transforms for each in plain.features] == [()] * 3
    few, _ = inferred(inspect_files([write(tmp_path / "b", records[:50])]))
    assert few["gain"] == Feature(name="gain", kind="dense"), "50 values say little of how they are spread"


def test_of_two_that_look_like_labels_the_one_called_label_is_it(tmp_path: Path) -> None:
    records = [{"clicked": np.array([each % 2]), "label": np.array([each % 2])} for each in range(20)]
    schema, _ = inferred(inspect_files([write(tmp_path / "a", records)]))
    assert schema.label == "label"


@given(st.lists(st.integers(-5, 5) | st.integers(-1000, 1000), min_size=1, max_size=300))
def test_intervals_of_about_as_many_values(values: list[int]) -> None:
    numbers = np.array(values, np.float32)
    boundaries = list(_boundaries(numbers))
    assert boundaries == sorted(set(boundaries))
    assert len(boundaries) < 16
    assert set(boundaries) <= set(numbers.tolist()) - {numbers.min()}
    intervals = np.searchsorted(boundaries, np.unique(numbers), side="right")
    crowded = np.bincount(np.searchsorted(boundaries, numbers, side="right")) > 2 * max(1, numbers.size // 16) + 1
    assert not any(crowded[place] for place in set(intervals.tolist()) if (intervals == place).sum() > 2), (
        "only a frequent value makes an interval much larger than the others"
    )


def inferred(report: Report) -> tuple[Schema, list[str]]:
    return infer_schema(report.features, report.looked_at)


def test_what_never_holds_a_value_or_names_the_sample_is_pointed_out(tmp_path: Path) -> None:
    records: list[dict[str, list[object]]] = [{"a": [n % 3], "session": [f"s{n}"], "none": []} for n in range(30)]
    schema, notes = inferred(inspect_files([write(tmp_path / "a", records)]))
    assert schema.names == ("a", "session")
    assert notes == [
        "none is left out: it held no value in the 30 records that were looked at",
        "session held another value in every record: does it name the sample? then take it out",
    ]


def test_what_the_job_names_is_no_feature_however_it_is_stored(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [{"a": [1], "ctr": [1.0], "cvr": [0], "w": [2], "id": [7]}])
    report = inspect_files([path])
    data = Data(train=(path,), label=("ctr", "cvr"), weight="w", sample_id="id")
    schema, _ = infer_for_job(report.features, report.looked_at, data)
    assert (schema.names, schema.label, schema.sample_id) == (("a",), None, "id")
    assert schema.stored == {"ctr": "float", "w": "int64"}
    report = inspect_files([write(tmp_path / "b", [{"a": ["yes"], "x": [1]}])])
    with pytest.raises(DataError, match=r"\$\.data\.label: `a` holds byte strings"):
        infer_for_job(report.features, report.looked_at, Data(train=(path,), label="a"))


def test_parquet_is_looked_at_as_well(tmp_path: Path) -> None:
    table = pa.table({"click": [0, 1, 1], "city": ["a", None, "b"], "tags": [[1, 2], [], [3]], "x": [0.5, 1.5, None]})
    pq.write_table(table, tmp_path / "a.parquet", compression="gzip")
    report = inspect_files([str(tmp_path / "*")], count=True)
    size = (tmp_path / "a.parquet").stat().st_size
    assert report.files == (FileReport(str(tmp_path / "a.parquet"), size, "gzip", 3, "parquet"),)
    assert {each.name: each.present for each in report.features} == {"click": 3, "city": 2, "tags": 3, "x": 2}
    schema, _ = inferred(report)
    assert schema.label == "click"
    assert [(each.name, each.kind, each.max_length) for each in schema.features] == [
        ("city", "string", None),
        ("tags", "categorical", 2),
        ("x", "dense", None),
    ]


def test_a_click_count_is_no_label(tmp_path: Path) -> None:
    schema, _ = inferred(inspect_files([write(tmp_path / "a", [{"click": [n], "sample_id": [1]} for n in range(3)])]))
    assert (schema.label, schema.sample_id) == (None, None)
    assert schema.names == ("click", "sample_id")


def test_records_that_disagree_or_are_no_example(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="feature `a` holds float values here and int64 before"):
        inspect_files([write(tmp_path / "a", [{"a": [1]}, {"a": [1.0]}])])
    with RecordWriter(str(tmp_path / "b")) as writer:
        writer.write(b"\xff")
    with pytest.raises(DataError, match=r"b: record 0: not a tf\.Example"):
        inspect_files([str(tmp_path / "b")])
    with pytest.raises(DataError, match="no feature with a value in the 0 records"):
        inferred(inspect_files([write(tmp_path / "c", [])]))


def test_a_name_of_several_lines_leaves_no_note() -> None:
    """A data file names its features; what it says must not become a line of the schema."""
    schema = Schema(features=(Feature(name="x", kind="dense"),))
    text = text_of(schema, ["x\nlabel: x is left out"])
    assert text.startswith("# x label: x is left out\n")
    assert parse_schema(text.encode(), "schema.yaml") == schema

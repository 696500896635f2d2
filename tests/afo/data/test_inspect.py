"""Looking at data: what is reported, and the schema inferred from it."""

from pathlib import Path

import pytest

from afo.data.example import encode
from afo.data.inspect import FileReport, infer_schema, inspect_files
from afo.data.schema import Feature
from afo.data.tfrecord import RecordWriter
from afo.errors import DataError


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
    schema, notes = infer_schema(inspect_files([write(tmp_path / "a", RECORDS)]))
    assert (schema.label, schema.sample_id) == ("click", "sample_id")
    assert schema.features == (Feature(name="city", kind="string"), Feature(name="x", kind="dense", shape=(2,)))
    assert notes == ["tags is left out: 0 to 2 values a record, not a fixed number"]


def test_a_click_count_is_no_label(tmp_path: Path) -> None:
    schema, _ = infer_schema(
        inspect_files([write(tmp_path / "a", [{"click": [n], "sample_id": [1]} for n in range(3)])])
    )
    assert (schema.label, schema.sample_id) == (None, None)
    assert schema.names == ("click", "sample_id")


def test_records_that_disagree_or_are_no_example(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="feature `a` holds float values here and int64 before"):
        inspect_files([write(tmp_path / "a", [{"a": [1]}, {"a": [1.0]}])])
    with RecordWriter(str(tmp_path / "b")) as writer:
        writer.write(b"\xff")
    with pytest.raises(DataError, match=r"b: record 0: not a tf\.Example"):
        inspect_files([str(tmp_path / "b")])
    with pytest.raises(DataError, match="no feature of a fixed number"):
        infer_schema(inspect_files([write(tmp_path / "c", [])]))

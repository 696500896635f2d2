"""CSV to TFRecord: every cell where it belongs, and every bad row with file and line."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from afo.data.example import decode
from afo.data.feature import Feature
from afo.data.io.csv_file import MOST_LINE, CsvFormat
from afo.data.io.tfrecord import compression_of, read_records
from afo.data.prepare.convert import _Columns, convert_csv
from afo.data.schema import Schema, parse_schema
from afo.errors import AlreadyExists, DataError, NotFound, SpecError, Unsupported

SCHEMA = parse_schema(
    "label: income\nsample_id: row\nfeatures:\n"
    "  - {name: age, kind: dense}\n  - {name: job, kind: string}\n  - {name: city, kind: categorical}\n",
    "s",
)
ADULT = CsvFormat(
    columns=("age", "job", "unused", "city", "income"),
    strip=True,
    skip_lines=1,
    missing=("?",),
    positive=(">50K", ">50K."),
)


PLAIN = CsvFormat()


def convert(
    root: Path, *texts: str | bytes, csv_format: CsvFormat = PLAIN, schema: Schema = SCHEMA, files: int = 1,
    overwrite: bool = False,
) -> int:  # fmt: skip
    urls = []
    for number, text in enumerate(texts):
        path = root / f"in-{number}.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        urls.append(str(path))
    return convert_csv(urls, str(root / "out"), schema, csv_format, files, overwrite=overwrite).records


def rows(root: Path) -> list[dict[str, object]]:
    return [
        {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in decode(record).items()}
        for path in sorted((root / "out").iterdir())
        for record in read_records(str(path))
    ]


def test_the_format_of_adult(tmp_path: Path) -> None:
    text = '|1x3 comment\n39, Clerk, x, 3, <=50K.\n50.5, ?, "a, b", ?, >50K.\n\n'
    assert convert(tmp_path, text, text.replace("K.", "K"), csv_format=ADULT) == 4
    clerk = {"age": [39.0], "job": [b"Clerk"], "city": [3], "income": [0]}
    unknown = {"age": [50.5], "income": [1]}
    assert rows(tmp_path) == [
        clerk | {"row": [0]},
        unknown | {"row": [1]},
        clerk | {"row": [2]},
        unknown | {"row": [3]},
    ]


def test_a_header_names_the_columns(tmp_path: Path) -> None:
    convert(tmp_path, "\ufeffcity,income,age,job,row\n-4,1,2,Zürich,77\n", "row,job,age,income,city\n8,,1e3,0,5\n")
    assert rows(tmp_path) == [
        {"age": [2.0], "job": ["Zürich".encode()], "city": [-4], "income": [1], "row": [77]},
        {"age": [1000.0], "city": [5], "income": [0], "row": [8]},
    ]


def test_rows_go_to_the_files_in_turn(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/part-00009.tfrecord").write_bytes(b"of an earlier conversion")
    text = "age,job,city,income\n" + "".join(f"{n},j,1,0\n" for n in range(5))
    assert convert(tmp_path, text, files=2, overwrite=True) == 5
    parts = sorted((tmp_path / "out").iterdir())
    assert [each.name for each in parts] == ["part-00000.tfrecord", "part-00001.tfrecord"]
    ages = [[decode(record)["age"][0] for record in read_records(str(path))] for path in parts]
    assert ages == [[0, 2, 4], [1, 3]]


def test_compression(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,job,city,income\n1,j,1,0\n")
    convert_csv([str(tmp_path / "a.csv")], str(tmp_path / "out"), SCHEMA, CsvFormat(), 1, "gzip")
    assert compression_of(str(tmp_path / "out/part-00000.tfrecord.gz")) == "gzip"
    assert len(rows(tmp_path)) == 1


HEADER = "age,job,city,income\n1,j,1,0\n"
COMPRESSED = gzip.compress(HEADER.encode(), mtime=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1,j,1\n", "in-0.csv:3: 3 cells where 4 columns"),
        (HEADER + "x,j,1,0\n", "in-0.csv:3: column 'age': 'x' is no finite"),
        (HEADER + "nan,j,1,0\n", "in-0.csv:3: column 'age': 'nan' is no finite"),
        (HEADER + "1e39,j,1,0\n", "'1e39' is no finite 32-bit"),
        (HEADER + "1,j,1.5,0\n", "in-0.csv:3: column 'city': '1.5' is no 64-bit integer"),
        (HEADER + f"1,j,{1 << 63},0\n", "is no 64-bit integer"),
        (HEADER + "1,j,1,2\n", "in-0.csv:3: column 'income': label '2' is neither 0 nor 1"),
        (HEADER + "1,j,1,\n", "in-0.csv:3: column 'income': the label is missing"),
        (HEADER + '1,"a\nb",1,0\n1,j,x,0\n', "in-0.csv:5: column 'city'"),
        (HEADER + '1,"j,1,0\n', "in-0.csv:3: unexpected end of data"),
        (HEADER.encode() + b"1,\xff,1,0\n", "in-0.csv:.*UTF-8"),
        ("age,jb,city,income\n1,j,1,0\n", "in-0.csv:1: there is no column 'job'; did you mean 'jb'"),
        ("age,job,job,city,income\n", "in-0.csv:1: column 'job' is there twice"),
        ("age,job,city,income\n", "hold no rows"),
        ("", "hold no rows"),
        (",job,city,income\n", "in-0.csv:1: a column has no name; .* --columns"),
        (b"PAR1\x15\x04", "in-0.csv:.*this is no CSV; it is Parquet, which a job reads as it is"),
        (COMPRESSED, "this is no CSV; it is compressed, and read so if its name ends in `.gz`"),
        ("x" * MOST_LINE + "y", "a line has more than 16,777,216 bytes"),
    ],
)
def test_bad_files_name_the_line_and_leave_no_output(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        convert(tmp_path, text)
    assert not list((tmp_path / "out").iterdir())


def test_lines_are_counted_from_the_start_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in-0.csv:3: 1 cells"):
        convert(tmp_path, "comment\n1,j,x,3,a\nbad\n", csv_format=ADULT)


def test_a_schema_or_format_that_does_not_fit(tmp_path: Path) -> None:
    shaped = parse_schema("features: [{name: a, kind: dense, shape: [2]}]", "s")
    with pytest.raises(Unsupported, match=r"`a` has up to 2 values.*--separator"):
        convert(tmp_path, HEADER, schema=shaped)
    unlabelled = parse_schema("features: [{name: age, kind: dense}]", "s")
    with pytest.raises(SpecError, match="names no label"):
        convert(tmp_path, HEADER, schema=unlabelled, csv_format=CsvFormat(label="income"))
    for delimiter in (";;", '"'):
        with pytest.raises(SpecError, match="delimiter"):
            convert(tmp_path, HEADER, csv_format=CsvFormat(delimiter=delimiter))
    with pytest.raises(NotFound):
        convert_csv([str(tmp_path / "none.csv")], str(tmp_path / "out"), SCHEMA, CsvFormat())


def test_part_files_of_others_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    others = ["part-00000-3f2a.c000.snappy.parquet", "part-r-00001", "part-00003.csv"]
    for name in [*others, "part-00007.tfrecord"]:
        (out / name).write_bytes(b"x")
    text = "age,job,city,income\n1,a,2,1\n"
    with pytest.raises(AlreadyExists, match=r"holds part-00007.tfrecord; .* --overwrite"):
        convert(tmp_path, text)
    assert sorted(path.name for path in out.iterdir()) == sorted([*others, "part-00007.tfrecord"])
    assert convert(tmp_path, text, overwrite=True) == 1
    assert sorted(path.name for path in out.iterdir()) == sorted([*others, "part-00000.tfrecord"])


def test_labels_that_would_all_be_0_are_refused(tmp_path: Path) -> None:
    text = "age,job,city,income\n1,a,2,Yes\n3,b,4,No\n"
    with pytest.raises(DataError, match="none of the 2 rows has a label of 'yes'"):
        convert(tmp_path, text, csv_format=CsvFormat(positive=("yes",)))
    assert not list((tmp_path / "out").glob("*"))
    assert convert(tmp_path, text, csv_format=CsvFormat(positive=("Yes",))) == 2


MULTI = parse_schema(
    "label: y\nfeatures:\n  - {name: tags, kind: string, max_length: 3}\n"
    "  - {name: pair, kind: dense, shape: [2]}\n  - {name: id, kind: categorical}\n",
    "s",
)


def test_a_cell_of_several_values_is_parted_where_the_schema_has_several(tmp_path: Path) -> None:
    text = "tags\tpair\tid\ty\na|-|b\t1|2.5\t7\t1\n\t\t-\t0\n"
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(text.encode()))
    form = CsvFormat(separator="|", missing=("-",))
    assert convert_csv([str(tmp_path / "a.tsv.gz")], str(tmp_path / "out"), MULTI, form).records == 2
    assert rows(tmp_path) == [{"tags": [b"a", b"b"], "pair": [1.0, 2.5], "id": [7], "y": [1]}, {"y": [0]}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,1|2|3,7,1", ":2: column 'pair': 3 values in '1|2|3', and the schema has 2"),
        ("a,1|x,7,1", ":2: column 'pair': 'x' is no finite"),
        ("a,1|2,7|8,1", ":2: column 'id': '7|8' is no 64-bit integer"),
    ],
)
def test_a_cell_of_other_values_than_the_schemas_is_an_error(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        convert(tmp_path, f"tags,pair,id,y\n{row}\n", schema=MULTI, csv_format=CsvFormat(separator="|"))


def test_a_damaged_archive_is_named_with_its_line(tmp_path: Path) -> None:
    url = tmp_path / "a.csv.gz"
    url.write_bytes(gzip.compress(HEADER.encode() * 50_000)[:-2000])
    with pytest.raises(DataError, match=r"a.csv.gz:\d+: "):
        convert_csv([str(url)], str(tmp_path / "out"), SCHEMA, CsvFormat())


def test_a_label_that_never_occurs_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,job,city,income\n1,a,2,Yes\n3,b,4,No\n")
    form = CsvFormat(positive=("Yes", "yes"))
    assert convert_csv([str(tmp_path / "a.csv")], str(tmp_path / "out"), SCHEMA, form).unmet == ("yes",)


WEIGHED = parse_schema(
    "label: y\nfeatures:\n  - {name: t, kind: string, max_length: 4, weights: w}\n"
    "  - {name: w, kind: dense, max_length: 4}\n",
    "s",
)


def test_weights_stay_with_their_values(tmp_path: Path) -> None:
    form = CsvFormat(separator="|", missing=("NA",))
    assert convert(tmp_path, "y,t,w\n1,a|NA|c,1||3\n0,,\n0,a,2\n", csv_format=form, schema=WEIGHED) == 3
    records = [decode(each) for each in read_records(str(tmp_path / "out/part-00000.tfrecord"))]
    assert [(list(each.get("t", [])), list(each.get("w", []))) for each in records] == [
        ([b"a", b"c"], [1, 3]), ([], []), ([b"a"], [2]),
    ]  # fmt: skip
    for row in ("a||c,1|2|3", "a|b|c,1|NA|3", "a|b|c,1|2", ",1"):
        with pytest.raises(DataError, match=r"in-0.csv:2: column 't': .* leave out a value together with its weight"):
            convert(tmp_path, f"y,t,w\n1,{row}\n", csv_format=form, schema=WEIGHED, overwrite=True)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            b"age,job,city,income\n1,j,1,0\n1,\xe9,1,0\n",
            ":3: byte 3 of the line is not UTF-8; convert the file: ",
        ),
        (b"\xff\xfea\0g\0e\0", ":1: this is no CSV; it is text in UTF-16; convert it: `iconv"),
        (b"age,job,city,income\n1,j\r2,1,0\n", ":2: a carriage return stands alone outside of quotes; end lines"),
        (b"age,job,city,income\r1,j,1,0\r", ":1: a carriage return stands alone outside of quotes; end lines"),
        (b"age,job,city,income\n" + b"x" * (MOST_LINE + 1), ":2: a line has more than"),
        (b'age,job,city,income\n1,j,1,0\n1,"j,1,0\n' + b"1,j,1,0\n" * 50, ":53: .*; its row begins in line 3$"),
    ],
)
def test_the_line_is_the_one_that_is_wrong(tmp_path: Path, text: bytes, where: str) -> None:
    with pytest.raises(DataError, match=where):
        convert(tmp_path, text)


def test_many_columns_are_found_at_once() -> None:
    names = tuple(f"c{each}" for each in range(60_000))
    schema = Schema(features=tuple(Feature(name=each, kind="dense") for each in names[:30_000]))
    columns = _Columns(names, schema, PLAIN, set())
    assert len(columns.parse(["1"] * len(names))) == 30_000


def test_a_column_of_weights_is_written_that_the_schema_does_not_list(tmp_path: Path) -> None:
    schema = parse_schema("label: y\nfeatures:\n  - {name: a, kind: dense}\n", "s")
    weighed = CsvFormat(weight="w")
    convert(tmp_path, "a,w,y\n1,0.5,1\n,2,0\n", csv_format=weighed, schema=schema)
    assert rows(tmp_path) == [{"a": [1.0], "w": [0.5], "y": [1]}, {"w": [2.0], "y": [0]}]
    with pytest.raises(DataError, match=r"in-0.csv:3: column 'w': the weight is missing"):
        convert(tmp_path, "a,w,y\n1,0.5,1\n1,,0\n", csv_format=weighed, schema=schema, overwrite=True)

"""CSV files that no schema describes: each column has the narrowest type that fits, wherever they are looked at."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.example import kind_of
from afo.data.io.csv_file import PLAIN, CsvFormat
from afo.data.io.csv_values import first_values, integer, number
from afo.data.io.examples import LOOK
from afo.data.io.split_files import SplitFile
from afo.data.prepare.infer import infer_schema
from afo.data.prepare.inspect import inspect_files
from afo.data.prepare.profile import profile_files
from afo.errors import DataError

TEXT = """\
user,price,page,tags,clicked
1,2,a,x|y,yes
-3,NULL,7,,no
12,0.5,,z,yes
"""
FORM = CsvFormat(separator="|", missing=("NULL",), label="clicked", positive=("yes",))


@pytest.fixture
def clicks(tmp_path: Path) -> str:
    (tmp_path / "clicks.csv").write_text(TEXT)
    return str(tmp_path / "clicks.csv")


def test_columns_have_the_narrowest_type_that_fits(clicks: str) -> None:
    report = inspect_files([clicks], count=True, csv_format=FORM)
    (file,) = report.files
    assert (file.format, file.compression, file.records) == ("csv", "none", 3)
    found = {each.name: (each.kind, each.present, each.min_length, each.max_length) for each in report.features}
    assert found == {
        "user": ("int64", 3, 1, 1), "price": ("float", 2, 1, 1), "page": ("bytes", 2, 1, 1), "tags": ("bytes", 2, 1, 2),
        "clicked": ("int64", 3, 1, 1),
    }  # fmt: skip
    schema, _ = infer_schema(report.features, report.looked_at)
    assert schema.label == "clicked"
    assert schema["tags"].max_length == 2
    assert schema["price"].missing_indicator


def test_a_profile_knows_the_label_in_words(clicks: str) -> None:
    found = profile_files([clicks], label="clicked", csv_format=FORM)
    assert (found.records, found.positive) == (3, pytest.approx(2 / 3))


def test_csv_and_other_files_are_not_looked_at_together(clicks: str, tmp_path: Path) -> None:
    (tmp_path / "part-0.tfrecord").touch()
    with pytest.raises(DataError, match=r"some files are CSV and .*part-0.tfrecord is none"):
        inspect_files([clicks, f"{tmp_path}/part-*"])


@pytest.mark.parametrize(
    ("name", "form", "is_csv", "delimiter"),
    [
        ("a.csv", PLAIN, True, ","), ("a.tsv.gz", PLAIN, True, "\t"), ("part-0", PLAIN, False, ","),
        ("adult.data", CsvFormat(columns=("a",)), True, ","), ("x", CsvFormat(delimiter=";"), True, ";"),
    ],
)  # fmt: skip
def test_a_file_is_csv_by_its_name_or_by_how_it_is_written(
    name: str, form: CsvFormat, is_csv: bool, delimiter: str
) -> None:
    assert (form.is_csv(name), form.delimiter_of(name)) == (is_csv, delimiter)


@given(st.integers() | st.floats() | st.text())
def test_numbers_are_what_a_record_holds(value: object) -> None:
    whole, real = integer(str(value)), number(str(value))
    assert whole is None or -(1 << 63) <= whole < 1 << 63
    assert real is None or abs(real) < 3.5e38
    if isinstance(value, int):
        assert whole in (value, None)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "+3", "0"], "int64"),
        (["1", "2.5"], "float"),
        (["1", str(1 << 63)], "bytes"),
        ([str(1 << 63), "1"], "bytes"),
        (["01234", "5"], "bytes"),
        (["0.5", "01"], "float"),
        (["01", "0.5"], "float"),
        (["1.5", str(1 << 63)], "float"),
        (["1", "x", str(1 << 63)], "bytes"),
    ],
)
def test_an_id_of_many_digits_or_with_leading_zeros_is_text(tmp_path: Path, cells: list[str], kind: str) -> None:
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{each}\n" for each in cells))
    found = [each["id"] for _, each in first_values([SplitFile(str(tmp_path / "a.csv"), 0)], LOOK, 10, PLAIN)]
    assert {kind_of(each) for each in found} == {kind}
    if kind == "bytes":
        assert [each[0].decode() for each in found] == cells

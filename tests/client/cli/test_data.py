"""`afo data`: what a user types and reads."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from afo.data.schema import parse_schema
from afo.errors import AlreadyExists, UsageError
from afo_client.cli.data import command

SMALL = ["--train", "100", "--eval", "60", "--train-files", "2", "--eval-files", "1", "--processes", "1"]
COLUMNS = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,gender,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)
ROW = "25, {job}, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, United-States, {income}\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def test_synth_then_inspect(tmp_path: Path) -> None:
    result = run("synth", tmp_path / "d", *SMALL)
    assert result.exit_code == 0
    assert "best reachable: auc 0." in result.stdout
    answer = json.loads(run("synth", tmp_path / "d", *SMALL, "--json").stdout)
    assert answer["api"] == "afo/v1"
    assert 0.7 < answer["auc"] < 1
    table = run("inspect", tmp_path / "d/train/*", "--count").stdout
    assert "part-00001.tfrecord" in table.replace("\n", "")
    assert "user_id" in table
    report = json.loads(run("inspect", tmp_path / "d/*/part-*", "--count", "--json").stdout)
    assert [file["records"] for file in report["files"]] == [60, 50, 50]
    schema = parse_schema(run("inspect", tmp_path / "d/*/part-*", "--infer").stdout, "inferred")
    written = parse_schema((tmp_path / "d/schema.yaml").read_text(), "written")
    assert (schema.label, schema.sample_id) == (written.label, written.sample_id)
    assert set(schema.features) == set(written.features)


def test_synth_of_more_files_than_records_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="train: 1 records in 16 files"):
        run("synth", tmp_path, "--train", "1")


def test_adult_is_converted_as_the_documentation_says(tmp_path: Path) -> None:
    (tmp_path / "adult.test").write_text(
        "|1x3 Cross validator\n" + ROW.format(job="Private", income="<=50K.") + ROW.format(job="?", income=">50K.")
    )
    schema = Path(__file__).parents[3] / "conf/schemas/adult.yaml"
    options = ("--strip", "--skip-lines", "1", "--missing", "?", "--positive", ">50K.", "--columns", COLUMNS)
    result = run("convert", tmp_path / "adult.test", "--schema", schema, "--out", tmp_path / "out", *options)
    assert result.exit_code == 0
    report = json.loads(run("inspect", tmp_path / "out/*", "--json").stdout)
    present = {feature["name"]: feature["present"] for feature in report["features"]}
    assert present.pop("workclass") == 1
    assert set(present) == {*COLUMNS.split(","), "sample_id"} - {"workclass", "fnlwgt"}
    assert set(present.values()) == {2}


def test_behaviour_then_inspect(tmp_path: Path) -> None:
    sizes = ("--train", "60", "--eval", "50", "--train-files", "2", "--eval-files", "1")
    answer = json.loads(run("behaviour", tmp_path, *sizes, "--json").stdout)
    assert f"auc {answer['auc']:.4f}" in run("behaviour", tmp_path, *sizes).stdout
    report = json.loads(run("inspect", f"{tmp_path}/train/*", "--json").stdout)
    assert {each["name"]: each["max_length"] for each in report["features"]}["hist_item_ids"] > 1


def test_behaviour_of_more_files_than_records_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 records in 8 files"):
        run("behaviour", tmp_path, "--train", "3")


def test_indexes_are_written_beside_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n" + "0.5,1\n" * 30)
    (tmp_path / "schema.yaml").write_text("label: label\nfeatures: [{name: x, kind: dense}]\n")
    out = tmp_path / "out"
    convert = ("convert", tmp_path / "a.csv", "--schema", tmp_path / "schema.yaml", "--out", out, "--files")
    assert run(*convert, "3", "--index").exit_code == 0
    assert len(list(out.glob(".part-*.index"))) == 3
    by_converter = {path.name: path.read_bytes() for path in out.glob(".part-*.index")}
    result = run("index", out / "part-*")
    assert result.exit_code == 0
    assert {path.name: path.read_bytes() for path in out.glob(".part-*.index")} == by_converter
    [*_, last] = json.loads(run("index", out / "part-*", "--json").stdout)["files"]
    size = (out / "part-00002.tfrecord").stat().st_size
    assert (last["url"], last["index"], last["records"], last["bytes"]) == (
        str(out / "part-00002.tfrecord"), str(out / ".part-00002.tfrecord.index"), 10, size,
    )  # fmt: skip
    with pytest.raises(AlreadyExists, match="--overwrite"):
        run(*convert, "2", "--index")
    assert run(*convert, "2", "--index", "--overwrite").exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        ".part-00000.tfrecord.index", ".part-00001.tfrecord.index", "part-00000.tfrecord", "part-00001.tfrecord",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="--index and --compression gzip"):
        run(*convert, "2", "--index", "--compression", "gzip")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--columns", "label,a,a"), "--columns 'label,a,a': a name is empty, or stands there twice"),
        (("--columns", ""), "a name is empty"),
        (("--delimiter", ""), "--delimiter '': it is one character"),
    ],
)
def test_names_of_columns_are_looked_at(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n")
    with pytest.raises(UsageError, match=words):
        run("inspect", tmp_path / "a.csv", *options)


def test_the_least_and_largest_id_are_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,label\n1000000000001,1\n1000000000022,0\n")
    shown = run("inspect", tmp_path / "a.csv").stdout
    assert "1000000000001" in shown
    assert "1000000000022" in shown

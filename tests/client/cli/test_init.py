"""`afo init`: files that are valid as they are, also with each line that is offered as a comment."""

import re
import shlex
from pathlib import Path

import pytest

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import read_schema
from afo.job.loader import load_job
from afo_client.cli.main import run
from afo_client.submission.new_job import Size, size_for


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_records(folder: Path, part: str, label: str) -> None:
    (folder / part).mkdir(parents=True)
    with RecordWriter(str(folder / part / "a.tfrecord")) as writer:
        for number in range(4):
            writer.write(encode({label: [number % 2], "user": [number], "page": [b"x"], "n": [0.5]}))


def test_what_it_writes_is_valid_with_synthetic_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    assert capsys.readouterr().out == "job.yaml\nschema.yaml\n"
    assert run(["data", "synth", "data", "--train", "200", "--eval", "100", "--processes", "1"]) == 0
    assert run(["validate", "job.yaml", "--runtime", "local"]) == 0
    assert load_job("job.yaml").name == folder.name


def test_csv_files_become_records_and_the_job_is_valid(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{number % 9};{number / 7};{'a|b' if number % 3 else ''};{'yes' if number % 4 < 2 else 'no'}\n"
                   for number in range(40))  # fmt: skip
    for name in ("monday.csv", "tuesday.csv"):
        (folder / name).write_text(f"user;price;tags;bought\n{rows}")
    words = ["--train", "monday.csv", "--eval", "tuesday.csv", "--delimiter", ";", "--separator", "|"]
    assert run(["init", "ctr", *words, "--label", "bought", "--positive", "yes", "--positive", "Yes"]) == 0
    assert "note: no row has a label of 'Yes' (--positive)" in capsys.readouterr().err
    assert read_schema("ctr/schema.yaml")["tags"].size == 2
    assert run(["validate", "ctr/job.yaml", "--runtime", "local", "--no-trial"]) == 0
    assert "train: 1 file" in capsys.readouterr().out
    assert run(["init", "ctr", *words]) == 1
    assert "is there already and stays as it is" in capsys.readouterr().err


def test_records_are_made_anew_by_a_changed_schema(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cells of `site` hold the separator and are one value: the note's command makes them so."""
    (folder / "my day.csv").write_text("site\tlabel\n" + "a|b\t1\nc\t0\nNA\t0\n" * 30)
    words = ["--delimiter", r"\t", "--separator", "|", "--missing", "NA", "--missing", "it's"]
    assert run(["init", "ctr", "--train", "my day.csv", "--eval", "my*.csv", *words]) == 0
    note = next(line for line in capsys.readouterr().err.splitlines() if "make them again: " in line)
    schema = Path("ctr/schema.yaml")
    assert note.partition("note: ")[2] in schema.read_text()
    schema.write_text(re.sub(r"max_length: \d+", "shape: []", schema.read_text()))
    assert run(["validate", "ctr/job.yaml", "--runtime", "local", "--no-trial"]) != 0
    assert "make the records anew by this schema" in capsys.readouterr().err
    commands = [shlex.split(command) for command in note.partition("make them again: ")[2].split(" && ")]
    assert [run(command[1:]) for command in commands] == [0, 0]
    assert run(["validate", "ctr/job.yaml", "--runtime", "local", "--no-trial"]) == 0


def test_csv_files_become_enough_files_that_no_worker_idles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("day.csv").write_text("user,label\n" + "".join(f"{number},{number % 2}\n" for number in range(2000)))
    assert run(["init", "ctr", "--train", "day.csv"]) == 0
    assert "--files=8" in capsys.readouterr().err
    assert run(["validate", "ctr/job.yaml", "--runtime", "local"]) == 0
    shown = capsys.readouterr().out
    assert "train: 8 files" in shown
    assert "nothing to read" not in shown
    assert load_job("ctr/job.yaml").roles["worker"].count == 2


def test_another_delimiter_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("day.csv").write_text("user;click\n1;0\n2;1\n")
    for words in ([], ["--label", "click"]):
        assert run(["init", "ctr", "--train", "day.csv", *words]) == 2
        assert "there is one column only; is its delimiter another one: --delimiter ';'?" in capsys.readouterr().err
    Path("schema.yaml").write_text("label: click\nfeatures: [{name: user, kind: categorical}]\n")
    assert run(["data", "convert", "day.csv", "--schema", "schema.yaml", "--out", "out"]) != 0
    assert "there is no column 'user'; there is one column only; is its delimiter" in capsys.readouterr().err


def test_csv_files_that_are_not_right_leave_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{number},{number % 2}\n" for number in range(1200))
    (folder / "monday.csv").write_text(f"user,label\n{rows}x,1\n")
    assert run(["init", "ctr", "--train", "monday.csv"]) != 0
    assert "monday.csv:1202: column 'user': 'x' is no 64-bit integer" in capsys.readouterr().err
    assert not list((folder / "ctr").iterdir())


def test_each_line_that_is_offered_is_valid(folder: Path) -> None:
    assert run(["init", "--name", 'it\'s "mine": #1']) == 0
    text = Path("job.yaml").read_text()
    offered = re.findall(r"^ *# [a-z_]+: .*$", text, re.M)
    assert len(offered) > 8
    for line in offered:
        key = line.strip().removeprefix("# ").partition(":")[0]
        changed = text.replace(line, line.replace("# ", "", 1))
        if key == "model":  # in place of the section above it
            changed = text[: text.index("model:")] + text[text.index("# model:") + 2 :]
        Path("changed.yaml").write_text(changed)
        assert load_job("changed.yaml").name == 'it\'s "mine": #1'


def test_data_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("train", "eval"):
        write_records(folder / "clicks", part, "bought")
    assert run(["init", "mine", "--train", "clicks/train/*"]) == 2
    assert "--label; there are: bought, n, page, user" in capsys.readouterr().err
    assert not (folder / "mine").exists()
    given = ["--train", "clicks/train/*", "--label", "bought"]
    assert run(["init", "mine", *given, "--eval", "clicks/eval/*"]) == 0
    assert run(["validate", "mine/job.yaml", "--runtime", "local"]) == 0
    job = load_job("mine/job.yaml")
    assert (job.roles["worker"].count, job.data.batch_size, job.data.epochs) == (1, 64, 5)
    assert (job.data.label, job.data.eval) == ("bought", (f"{folder}/clicks/eval/*",))
    assert [each.name for each in read_schema("mine/schema.yaml").features] == ["n", "page", "user"]
    assert run(["init", "untested", *given]) == 0
    assert run(["validate", "untested/job.yaml", "--runtime", "local"]) == 0
    assert "evaluator" not in load_job("untested/job.yaml").roles


@pytest.mark.parametrize(
    ("files", "records", "size"),
    [
        (16, 1_500_000, Size(2, 1024, 1)),
        (4, 100_000, Size(2, 256, 1)),
        (3, 100_000, Size(1, 256, 1)),
        (1, 10_000, Size(1, 64, 2)),
        (1, 100, Size(1, 64, 5)),
        (5, None, Size(2, 1024, 1)),
    ],
)
def test_a_job_is_of_the_size_of_its_data(files: int, records: int | None, size: Size) -> None:
    assert size_for(files, records) == size


def test_a_label_that_is_a_real_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RecordWriter("a.tfrecord") as writer:
        for number in range(4):
            writer.write(encode({"label": [float(number % 2)], "user": [number]}))
    assert run(["init", "mine", "--train", "a.tfrecord", "--label", "label"]) == 0
    assert run(["validate", "mine/job.yaml", "--runtime", "local", "--no-trial"]) == 0
    capsys.readouterr()
    assert run(["data", "inspect", "a.tfrecord", "--infer"]) == 0
    Path("mine/schema.yaml").write_text(capsys.readouterr().out)
    assert run(["validate", "mine/job.yaml", "--runtime", "local", "--no-trial"]) == 0
    assert run(["init", "again", "--train", "a.tfrecord"]) == 0, "it is the label by its name"


@pytest.mark.parametrize("existing", ["job.yaml", "schema.yaml"])
def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str], existing: str) -> None:
    Path(existing).write_text("mine")
    assert run(["init"]) == 1
    assert f"{existing} is there already and stays as it is" in capsys.readouterr().err
    assert Path(existing).read_text() == "mine"
    assert [path.name for path in folder.glob("*.yaml")] == [existing]


def test_options_that_belong_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--eval", "x/*"]) == 2
    assert run(["init", "--train", "gone/*"]) == 5
    assert "gone/*" in capsys.readouterr().err

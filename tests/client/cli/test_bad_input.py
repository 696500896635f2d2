"""Every kind of bad input has its own message, its exit code, and no traceback.

Mistakes of one line are in `user_mistakes`, longer stories here.
"""

import json
import shlex
from pathlib import Path

import pytest

import user_mistakes
from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.job.loader import load_job
from afo_client.cli import validate
from afo_client.cli.main import run
from afo_client.submission.inspection import on_this_machine
from fake_resource_manager import FakeResourceManager
from user_mistakes import BETWEEN_FILES, IN_THE_JOB_FILE, IN_THE_SCHEMA, ON_THE_COMMAND_LINE

SCHEMA = """label: click
features:
  - {name: user_id, kind: categorical}
  - {name: price, kind: dense}
"""
JOB = """name: clicks
roles:
  ps: {instances: 1, memory: 1 GiB}
  worker: {instances: 2, memory: 1 GiB}
data:
  schema: schema.yaml
  train: ["train/*.tfrecord"]
  label: click
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / 'my "jobs" $HOME \'ü 漢'
    folder.mkdir()
    (folder / "schema.yaml").write_text(SCHEMA)
    write_records(folder / "train" / "a.tfrecord")
    (folder / "job.yaml").write_text(JOB)
    return folder


def write_records(path: Path, **changed: object) -> None:
    path.parent.mkdir(exist_ok=True)
    with RecordWriter(str(path)) as writer:
        for number in range(3):
            values: dict[str, object] = {"user_id": [number], "price": [0.5], "click": [number % 2], **changed}
            writer.write(encode({name: value for name, value in values.items() if value}))  # type: ignore[misc]


def message_of(capsys: pytest.CaptureFixture[str], code: int, arguments: list[str], *parts: str) -> str:
    """The message of a command that ends with `code` and nothing on stdout; each part is in it, and no traceback."""
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    for part in parts:
        assert part in captured.err
    return captured.err


def refused(capsys: pytest.CaptureFixture[str], code: int, arguments: list[str], *parts: str) -> None:
    """The command ends with `code` and an error of ours that has each part."""
    assert "error: " in message_of(capsys, code, arguments, *parts)


def changed(folder: Path, old: str, new: str) -> list[str]:
    """Arguments that validate the job file with `old` replaced by `new`."""
    (folder / "job.yaml").write_text(JOB.replace(old, new, 1))
    return ["validate", str(folder / "job.yaml")]


def test_names_with_spaces_quotes_and_unicode(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = """it's "quoted" $HOME `x` 漢字 \\"""
    assert run([*changed(folder, "clicks", json.dumps(name)), "--no-trial", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["name"], facts["containers"], facts["memory_mib"]) == (name, 4, 4096)
    assert facts["train"]["files"] == 1


def test_what_would_run_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(folder / "job.yaml")]) == 0
    text = capsys.readouterr().out
    assert "worker × 2: 1 GiB, 1 vcore each" in text
    assert "together, with the AM's: 4 containers, 4 GiB, 4 vcores" in text
    assert "its first step was tried on 3 samples: loss " in text


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("memory", "memry", ["job.yaml:3: $.roles.ps.memry: unknown key `memry`; did you mean `memory`? allowed:"]),
        ("1 GiB", "1 parsec", ["job.yaml:3: $.roles.ps.memory: '1 parsec'", "write e.g. '8 GiB'"]),
        ("name: clicks", "name: clicks\nname: again", ["job.yaml:2: $.name: key 'name' is given twice", "job.yaml:1"]),
        ("clicks", "[", ["not valid YAML"]),
        ("train/*", "{{day}}/*", ["job.yaml:7: $.data.train[0]: unknown variable 'day'", "--var day="]),
        ("worker:", "evaluator: {}\n  worker:", ["`roles.evaluator` needs files in `data.eval`"]),
    ],
)  # fmt: skip
def test_a_wrong_job_file(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, parts: list[str]
) -> None:
    refused(capsys, 3, changed(folder, old, new), *parts)


def test_a_yaml_bomb(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
    )
    (folder / "job.yaml").write_text(bomb)
    refused(capsys, 3, ["validate", str(folder / "job.yaml")], "job.yaml:5", "more than 100000 values")


def test_an_oversized_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.yaml").write_text(JOB + "# " + "x" * (1 << 20))
    refused(capsys, 3, ["validate", str(folder / "job.yaml")], "larger than 1 MiB")


def test_missing_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, 5, ["validate", str(folder / "gone.yaml")], "gone.yaml: no such file")
    refused(capsys, 5, changed(folder, "schema.yaml", "skema.yaml"), "skema.yaml")
    refused(capsys, 5, changed(folder, "train/*", "test/*"), "$.data.train", "test/*.tfrecord")
    added = changed(folder, "data:", "environment: {files: [mine.py]}\ndata:")
    refused(capsys, 5, added, "$.environment.files[0]", "mine.py does not exist")
    entry = changed(folder, "data:", "model: {entry: my_ctr.py:build}\ndata:")
    refused(capsys, 5, entry, "$.model.entry", "my_ctr.py is no file")


def test_a_feature_that_the_data_do_not_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "schema.yaml").write_text(SCHEMA.replace("price", "prise"))
    path = str(folder / "job.yaml")
    refused(capsys, 3, ["validate", path], "feature `prise`", "first 3 records", "did you mean `price`?", "a.tfrecord")
    (folder / "schema.yaml").write_text(SCHEMA)
    labelled = changed(folder, "label: click", "label: klick")
    refused(capsys, 3, labelled, "$.data.label", "feature `klick`", "there are: click, price")
    crossed = changed(folder, "data:", "model: {wide: {crosses: [[user_id, prize]]}}\ndata:")
    refused(capsys, 3, crossed, "$.model.wide.crosses[0]", "`prize`", "did you mean `price`?")


@pytest.mark.parametrize(("damage", "part"), [("cut", "cut off"), ("flip", "offset")])
def test_a_damaged_file_is_named_with_its_offset(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str, part: str
) -> None:
    path = folder / "train" / "a.tfrecord"
    data = path.read_bytes()
    size = len(data) // 3
    path.write_bytes(data[:-3] if damage == "cut" else data[: size + 20] + b"\xff" + data[size + 21 :])
    offset = 2 * size if damage == "cut" else size
    refused(capsys, 3, ["validate", str(folder / "job.yaml")], "a.tfrecord", f"offset {offset}", part)


def test_an_unwritable_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").write_text("")
    exported = changed(folder, "data:", "export: {dir: file/x}\ndata:")
    refused(capsys, 4, exported, "cannot write into", "file/x", "choose another directory")


def test_no_cluster(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    job = str(folder / "job.yaml")
    refused(capsys, 5, ["submit", job, "--runtime", "yarn"], "no Hadoop cluster is configured", "HADOOP_CONF_DIR")
    configure(folder, monkeypatch, {"fs.defaultFS": "hdfs://127.0.0.1:1", "yarn.resourcemanager.hostname": "127.0.0.1"})
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    refused(capsys, 6, ["submit", job, "--runtime", "yarn"], "ResourceManager", "does not answer")


def test_a_kerberos_cluster(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    configure(folder, monkeypatch, {"fs.defaultFS": "hdfs://h:1", "hadoop.security.authentication": "kerberos"})
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    monkeypatch.setenv("KRB5CCNAME", str(folder / "none"))
    refused(capsys, 4, ["submit", str(folder / "job.yaml"), "--runtime", "yarn"], "no valid ticket", "`kinit`")


def configure(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """A Hadoop configuration of these settings."""
    conf = folder / "hadoop"
    conf.mkdir()
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (conf / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("1 GiB", "64 GiB", ["$.roles.ps.memory: 64 GiB", "the largest is 4 GiB"]),
        ("name: clicks", "name: clicks\nqueue: defualt", ["$.queue", "no queue 'defualt'", "did you mean 'default'?"]),
    ],
)
def test_what_the_cluster_cannot_give(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    old: str, new: str, parts: list[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder / "hadoop"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    manager = FakeResourceManager()
    try:
        manager.write_configuration(folder / "hadoop", fs__defaultFS=f"file://{folder}")
        job = changed(folder, old, new)[1]
        refused(capsys, 3, ["submit", job, "--runtime", "yarn", "--dry-run"], *parts)
        refused(capsys, 3, ["validate", job, "--runtime", "yarn"], *parts)
    finally:
        manager.stop()


def test_what_yarn_cannot_take(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(folder, monkeypatch, {"fs.defaultFS": f"file://{folder}"})
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    (folder / "am-config.json").write_text("")
    validate = [*changed(folder, "data:", "environment: {files: [am-config.json]}\ndata:"), "--runtime", "yarn"]
    refused(capsys, 3, validate, "$.environment.files[0]: 'am-config.json' is a name that afo uses itself")


def test_local_paths_on_yarn_are_pointed_out(folder: Path) -> None:
    job = load_job(folder / "job.yaml", settings=["export.dir=hdfs:///out"])
    assert on_this_machine(job) == [f"$.data.train[0]: {folder}/train/*.tfrecord"]


def test_jobs_that_are_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("status", "wait", "kill", "logs", "events"):
        refused(capsys, 2, [verb], "no job was named")
        refused(capsys, 5, [verb, "local_1_0001"], "there is no job local_1_0001")
        refused(capsys, 2, [verb, "../../etc"], "is not a job id")


def test_a_task_that_is_none_is_not_taken_for_a_job(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "'werker:0' is not a job id, and no task; did you mean `worker`? tasks are worker:0, ps"
    refused(capsys, 2, ["logs", "werker:0"], words)


def test_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sbumit"]) == 2
    assert "sbumit" in capsys.readouterr().err
    assert run(["submit", "--no-such-option"]) == 2
    assert "--no-such-option" in capsys.readouterr().err
    job = str(folder / "job.yaml")
    refused(capsys, 2, ["validate", job, "--set", "x"], "--set name=value")
    assert run(["submit", job, "--timeout", "soon"]) == 2
    assert "'soon' is not a duration" in capsys.readouterr().err


def test_with_json_an_error_is_an_object_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(folder / "gone.yaml"), "--json"]) == 5
    error = json.loads(capsys.readouterr().out)
    assert (error["api"], error["error"]["exit_code"]) == ("afo/v1", 5)


def test_a_bug_is_reported_in_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str, **options: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(validate, "read_job", broken)
    refused(capsys, 70, ["validate", "job.yaml"], "a bug in afo: ZeroDivisionError: oh", "please report it")


def test_ctrl_c_and_a_closed_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: str, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(validate, "read_job", interrupted)
    assert run(["validate", "job.yaml"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_demo_without_its_job_file_makes_no_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refused(
        capsys, 5, ["demo", "--dir", str(tmp_path / "d"), "--job", str(tmp_path / "no.yaml")], "name one with --job"
    )
    assert not (tmp_path / "d").exists()


@pytest.fixture
def correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job that is right, and what it names; the present directory."""
    for name in ("AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_CONF_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for part in ("train", "eval"):
        write_records(tmp_path / part / "a.tfrecord", page=[b"x"])
    for name, text in user_mistakes.FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def replace(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))


def advised(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, place: str, advice: str) -> None:
    """The command ends with the code, and says where and what to do, in a few lines."""
    words = message_of(capsys, code, arguments, place, advice)
    assert "a bug in afo" not in words
    assert len(words.splitlines()) <= 6


def by_name(table: list[tuple[str, ...]]) -> list[object]:
    return [pytest.param(*row[1:], id=row[0]) for row in table]


def test_what_is_changed_below_is_right_before(correct: Path) -> None:
    assert run(["validate", "--no-trial", "job.yaml"]) == 0


@pytest.mark.parametrize(("old", "new", "place", "advice"), by_name(IN_THE_JOB_FILE))
def test_a_job_file(
    correct: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, place: str, advice: str
) -> None:
    replace(correct, "job.yaml", old, new)
    advised(capsys, ["validate", "job.yaml"], 3, place, advice)


@pytest.mark.parametrize(("old", "new", "place", "advice"), by_name(IN_THE_SCHEMA))
def test_a_schema(
    correct: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, place: str, advice: str
) -> None:
    replace(correct, "schema.yaml", old, new)
    advised(capsys, ["validate", "job.yaml"], 3, place, advice)


@pytest.mark.parametrize(("file", "old", "new", "code", "place", "advice"), by_name(BETWEEN_FILES))
def test_what_does_not_fit_together(
    correct: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, code: int, place: str, advice: str
) -> None:
    replace(correct, file, old, new)
    advised(capsys, ["validate", "job.yaml"], code, place, advice)


@pytest.mark.parametrize(("line", "code", "place", "advice"), by_name(ON_THE_COMMAND_LINE))
def test_a_command_line(
    correct: Path, capsys: pytest.CaptureFixture[str], line: str, code: int, place: str, advice: str
) -> None:
    advised(capsys, shlex.split(line), code, place, advice)


def test_each_line_asks_for_a_place_and_an_advice() -> None:
    rows = [*IN_THE_JOB_FILE, *IN_THE_SCHEMA, *BETWEEN_FILES, *ON_THE_COMMAND_LINE]
    assert len(rows) >= 60
    assert not [row[0] for row in rows if not (row[-2] and row[-1])]

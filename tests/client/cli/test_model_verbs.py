"""Verbs about saved models, by what lies in a directory: lineage, checkpoints, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from afo import storage
from afo.checkpoint.manifest import Manifest, Part, Refusal, commit, read_manifest, write_evaluation, write_refusal
from afo.errors import NotFound, SpecError
from afo.events.types import JobFinished
from afo.formats import json_file
from afo.job import Checkpoint, Data, Export, Job, Model, Role, RoleSpec
from afo.job.paths import JobPaths
from afo.job_dir import lineage
from afo.job_dir.lineage import Ancestry, Evaluation, Lineage, Training
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.protocol.offline_task import NumberedFile, OfflineResult
from afo.rpc.messages import ServerPart
from afo.site.config import load_config
from afo.trainable.served.export_info import Exported
from afo_client.cli import evaluate, export, predict
from afo_client.cli import lineage as verb
from afo_client.cli.main import run
from afo_client.models.model_ref import find_model
from afo_client.models.offline import SavedModel, saved_model

ROLES: dict[Role, RoleSpec] = {"ps": RoleSpec(instances=1), "worker": RoleSpec(instances=1)}


def training(job: str, files: tuple[Path, ...], **fields: object) -> Training:
    listed = [InputFile(str(file), file.stat().st_size, file.stat().st_mtime) for file in files]
    applied = lineage.list_applied(listed, [(0, 1500, 0xABC)] * len(files))
    return Training(
        job_id=job, name="clicks", afo_version="0", schema_hash="", first_step=0, step=10, files=applied,
        totals=lineage.totals_of(applied), **fields,
    )  # type: ignore[arg-type]  # fmt: skip


def write_job(model: Path, user: str, job: Job, schema: str = "") -> None:
    """As that which wrote the checkpoint of `model`."""
    paths = JobPaths(str(model / "jobs"), "local_1_2")
    Path(paths.dir).mkdir(parents=True)
    Path(paths.schema).write_text(schema)
    config = AmConfig(
        job=job, user=user, afo_version="0", runtime="local", jobs_root=str(model / "jobs"), train_files=(),
        eval_files=(), secret_file="", schema_file="", submitted=1.0,
    )  # fmt: skip
    Path(paths.job).write_bytes(json_file.encode(config))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A day's directory with one job's checkpoint; the job was warm-started once."""
    files = [tmp_path / name for name in ("monday", "tuesday")]
    for file in files:
        file.write_bytes(b"records")
    before = Ancestry(jobs=(training("local_1_1", (files[0],), manifest="/m", metrics={"auc": 0.81}),))
    manifest = Manifest(
        version=2, generation=1, step=20, final=True, directory="g000001-x", rows={},
        parts=(Part("dense", "d", 0, 1, 2048, 7),),
        seconds=4.25, servers=(ServerPart(server=0, read_s=0.5), ServerPart(server=1, read_s=2.0, write_s=0.5)),
        lineage=Lineage(own=training("local_1_2", (files[1],)), before=before),
    )  # fmt: skip
    directory = tmp_path / "day" / "local_1_2" / "g000001-x"
    directory.mkdir(parents=True)
    (directory / "d").write_bytes(bytes(2048))
    url, _ = commit(str(tmp_path / "day" / "local_1_2"), manifest)
    write_evaluation(url, Evaluation(metrics={"auc": 0.8214}, coverage={}))
    return tmp_path


def test_a_lineage_names_every_file_through_the_warm_start(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lineage", str(model / "day")]) == 0
    text = capsys.readouterr().out
    assert "-final.json (step 20)" in text
    assert "clicks (local_1_1), steps 0 to 10: 1 file, 1,500 records, AUC 0.8100" in text
    assert text.index("tuesday") < text.index("monday")
    assert text.count("0000000000000abc") == 2


@pytest.mark.parametrize(("epochs", "words"), [((0, 0), ""), ((5, 5), " of epoch 6"), ((4, 5), " of epochs 5 to 6")])
def test_records_are_those_of_the_epoch_that_files_are_in(tmp_path: Path, epochs: tuple[int, int], words: str) -> None:
    files = [tmp_path / name for name in ("monday", "tuesday")]
    for file in files:
        file.write_bytes(b"records")
    own = training("local_1_1", tuple(files))
    own = replace(own, files=tuple(replace(f, epoch=e) for f, e in zip(own.files, epochs, strict=True)))
    assert verb._job_text(own)[0].endswith(f"2 files, 3,000 records{words}")


def test_a_manifest_names_a_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [manifest] = (model / "day" / "local_1_2").glob("manifest-*.json")
    found = find_model(load_config(), str(manifest))
    assert found.text == f"{manifest} (step 20)"
    assert run(["lineage", str(manifest)]) == 0
    assert f"{manifest} (step 20)" in capsys.readouterr().out


def test_an_export_is_named_beside_its_checkpoint(model: Path) -> None:
    [manifest] = (model / "day" / "local_1_2").glob("manifest-*")
    about = model / "out" / "assets.extra" / "afo.json"
    about.parent.mkdir(parents=True)
    about.write_bytes(json_file.encode(Exported(manifest=str(manifest), step=20, labels=("y",), rows="int8")))
    found = find_model(load_config(), str(model / "out"))
    assert (found.text, found.rows) == (f"{model}/out, of {manifest} (step 20)", "int8")
    manifest.unlink()
    with pytest.raises(NotFound) as raised:
        find_model(load_config(), str(model / "out"))
    words = f"{model}/out is an export of {manifest} (step 20), and that checkpoint was removed: "
    assert str(raised.value).startswith(words)
    assert "`checkpoint.keep`" in str(raised.value)
    assert "an exported model" not in str(raised.value)


def test_the_model_of_a_job_is_what_it_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    paths = JobPaths(str(tmp_path), "local_1_2")
    best, last = (
        commit(
            paths.checkpoints(""),
            Manifest(version=2, generation=1, step=step, final=final, directory=f"g000001-{step}", rows={}, parts=()),
        )[0]
        for step, final in ((10, False), (20, True))
    )
    assert find_model(load_config(), "local_1_2").url == last
    finished = JobFinished(
        state="SUCCEEDED", cause="succeeded", diagnostics="", metrics={}, samples=1, step=20, seconds=1.0,
        core_hours=0.0, memory_gb_hours=0.0, restarts=0, export=best,
    )  # fmt: skip
    Path(paths.verdict).write_bytes(json_file.encode(finished))
    assert find_model(load_config(), "local_1_2").url == best
    assert run(["checkpoint", "ls", "local_1_2"]) == 0
    assert capsys.readouterr().out.count("manifest-g000001") == 2, "all are listed, not what was exported"
    other = f"{tmp_path}/local_1_3/checkpoints/manifest-g000001-s000000000010.json"
    for elsewhere in (other, f"{tmp_path}/local_1_2/../local_1_3/x.json", "/etc/passwd"):
        Path(paths.verdict).write_bytes(json_file.encode(replace(finished, export=elsewhere)))
        assert find_model(load_config(), "local_1_2").url == last
        assert f"names {elsewhere}, no checkpoint of this job" in capsys.readouterr().err
    Path(paths.verdict).write_bytes(json_file.encode(finished))
    Path(best).unlink()  # by `checkpoint.keep` of a later job, or by hand
    assert find_model(load_config(), "local_1_2").url == last


def test_a_file_that_changed_since_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lineage", str(model / "day"), "--check"]) == 0
    assert "every file that is named is as it was" in capsys.readouterr().out
    (model / "monday").unlink()
    os.utime(model / "tuesday", (1.0, 1.0))
    assert run(["lineage", str(model / "day"), "--check", "--json"]) == 1
    changed = json.loads(capsys.readouterr().out)["changed"]
    assert changed == [f"{model}/tuesday was written again at 1970-01-01T00:00:01.000Z", f"{model}/monday is gone"]


def test_checkpoints_are_listed_with_what_was_measured_of_them(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkpoint", "ls", str(model / "day")]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["STEP", "GENERATION", "FINAL", "HOLDS", "SIZE"]
    assert line.split()[:6] == ["20", "1", "yes", "all", "2.0", "KiB"]
    assert "0.8214" in line
    assert "4.2 s  ps:1 2.5 s" in line
    write_refusal(str(model / "day" / "local_1_2"), Refusal("/m", ("auc 0.5 is not within >=0.7",)))
    assert run(["checkpoint", "ls", str(model / "day"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    [saved] = answer["checkpoints"]
    assert (saved["step"], saved["seconds"]) == (20, 4.25)
    assert saved["servers"][1] == {"server": 1, "bytes": 0, "read_s": 2.0, "write_s": 0.5}
    assert answer["refused"] == ["auc 0.5 is not within >=0.7"]


def test_the_size_of_a_checkpoint_holds_its_hash_tables(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [url] = (model / "day" / "local_1_2").glob("manifest-*")
    manifest = replace(read_manifest(str(url)), tables="tables/tables.json", rows={"user": 1200, "city": 34})
    (url.parent / manifest.directory / "tables").mkdir(parents=True)
    (url.parent / manifest.directory / "tables" / "rows-0000-0.afo").write_bytes(bytes(1 << 20))
    url.unlink()
    commit(str(url.parent), manifest)
    assert run(["checkpoint", "ls", str(model / "day"), "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["checkpoints"]
    assert (line["bytes"], line["rows"]) == ((1 << 20) + 2048, 1234)
    assert run(["checkpoint", "ls", str(model / "day")]) == 0
    assert "1.0 MiB  1,234 " in capsys.readouterr().out


def test_checkpoints_are_listed_with_what_they_stand_on(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(model / "jobs"))
    [url] = (model / "day" / "local_1_2").glob("manifest-*")
    full = read_manifest(str(url))
    for step in (30, 40):
        delta = replace(full, step=step, final=False, directory=f"g000001-{step}", base="g000001-x", parts=())
        (url.parent / delta.directory).mkdir()
        commit(str(url.parent), delta)
    listed = ["checkpoint", "ls", str(model / "day")]
    assert run(listed) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert ["  all  " in lines[0], "changes of 20  " in lines[1], "kept as base" in lines[0]] == [True, True, False]
    write_job(model, "ann", Job(name="x", roles=ROLES, data=Data(train=("x",)), checkpoint=Checkpoint(keep=2)))
    assert run(listed) == 0
    assert "all, kept as base" in capsys.readouterr().out.splitlines()[1]
    assert run([*listed, "--json"]) == 0
    saved = json.loads(capsys.readouterr().out)["checkpoints"]
    assert [each["delta"] for each in saved] == [False, True, True]
    assert [each["base_step"] for each in saved] == [None, 20, 20]
    assert [each["kept_as_base"] for each in saved] == [True, False, False]


@pytest.mark.parametrize("number", [10**30, 10**400, 10**4000], ids=["30", "400", "4000"])
def test_a_manifest_may_say_any_number(tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    """Anybody writes one with its checksum: refused, or shown, and no bug."""
    file = lineage.AppliedFile("/f", number, 1e300, 0, number, "00")
    own = Training(
        job_id="local_1_2", name="clicks", afo_version="0", schema_hash="", first_step=number, step=number,
        files=(file,), totals=lineage.Totals(number, number),
    )  # fmt: skip
    manifest = Manifest(
        version=2, generation=1, step=20, final=True, directory="g000001-x", rows={},
        parts=(Part("dense", "d", 0, 1, number, 7), Part("more", "e", 0, 1, number, 7)),
        lineage=Lineage(own=own, before=Ancestry(earlier_jobs=number, earlier=lineage.Totals(number, number))),
    )  # fmt: skip
    (tmp_path / "local_1_2").mkdir()
    commit(str(tmp_path / "local_1_2"), manifest)
    for words in (["lineage"], ["checkpoint", "ls"]):
        for form in ([], ["--json"]):
            assert run([*words, str(tmp_path), *form]) in (0, 3), capsys.readouterr().err


def test_a_damaged_checkpoint_is_listed_with_its_problem(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [manifest] = (model / "day" / "local_1_2").glob("manifest-*")
    damaged = manifest.with_name("manifest-g000001-s000000000010.json")
    damaged.write_bytes(manifest.read_bytes()[:-20])
    assert run(["checkpoint", "ls", str(model / "day")]) == 0
    _, first, second, problem = capsys.readouterr().out.splitlines()
    assert [first.split()[0], second.split()[0]] == ["10", "20"]
    assert problem.startswith(f"cannot be used: {damaged}")
    assert run(["checkpoint", "ls", str(model / "day"), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["checkpoints"]
    assert [bool(each["problem"]) for each in lines] == [True, False]


@pytest.mark.parametrize(("harm", "words"), [("cut", "has 1 bytes and had 2,048"), ("gone", "is gone")])
def test_a_checkpoint_that_lacks_a_file_is_listed_with_it(
    model: Path, capsys: pytest.CaptureFixture[str], harm: str, words: str
) -> None:
    file = model / "day" / "local_1_2" / "g000001-x" / "d"
    file.write_bytes(b"x") if harm == "cut" else file.unlink()
    assert run(["checkpoint", "ls", str(model / "day")]) == 0
    assert f"cannot be used: {file} {words}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lineage", "{folder}/nothing"], "does not exist; name a job, a directory of checkpoints, a manifest"),
        (["checkpoint", "ls", "{folder}/nothing"], "does not exist: nothing was saved there yet"),
        (["evaluate", "{folder}/day"], "was written by local_1_2, whose job and schema it takes to use it"),
        (["export", "{folder}/day", "--out", "{folder}/out"], "AFO_JOBS_ROOT"),
        (["predict", "{folder}/nothing", "--data", "x", "--out", "{folder}/out"], "nothing does not exist"),
    ],
)
def test_what_is_not_there(
    model: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(model / "jobs"))
    assert run([word.format(folder=model) for word in words]) == NotFound.exit_code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("user", "entry", "told"),
    [("bob", "/bob/ctr.py:build", True), ("ann", "/bob/ctr.py:build", False), ("bob", "", False)],
)
def test_the_code_of_somebody_elses_model_is_named(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, user: str, entry: str, told: bool
) -> None:
    """Before it runs."""
    monkeypatch.setenv("AFO_JOBS_ROOT", str(model / "jobs"))
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    write_job(model, user, Job(
        name="clicks", roles=ROLES, data=Data(train=("part-*",)),
        model=Model(kind="entry", entry=entry) if entry else Model(),
    ))  # fmt: skip
    assert saved_model(load_config(), str(model / "day")).job.model.entry == entry
    words = "this model of bob is a program, /bob/ctr.py:build, which runs here as you"
    assert capsys.readouterr().err == (f"{words}\n" if told else "")


@pytest.mark.parametrize(
    ("given", "exported"),
    [([], ["page"]), (["--user-features", "page, city"], ["page", "city"]), (["--user-features", ""], [])],
)
def test_features_of_the_user_are_those_of_the_job_or_of_the_command(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    exported: list[str],
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(model / "jobs"))
    asked: list[Any] = []
    monkeypatch.setattr(export, "run", lambda *_, **options: asked.append(options) or [OfflineResult()])
    features = "".join(f"  - {{name: {name}, kind: string}}\n" for name in ("page", "city", "item"))
    job = Job(name="clicks", roles=ROLES, data=Data(train=("part-*",)), export=Export(user_features=("page",)))
    write_job(model, "ann", job, f"label: click\nfeatures:\n{features}")
    words = ["export", str(model / "day"), "--out", str(model / "out")]
    assert run([*words, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["user_features"] == exported
    assert asked[0]["user_features"] == tuple(exported)
    assert run([*words, "--user-features", "page,town"]) == SpecError.exit_code
    assert "--user-features[1]: feature `town` is not in the schema" in capsys.readouterr().err


def test_scores_replace_nothing_unasked(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "out").mkdir()
    (model / "out" / "mine").touch()
    assert run(["predict", str(model / "day"), "--data", str(model / "monday"), "--out", str(model / "out")]) == 1
    assert "holds something; name another directory, or replace it with --overwrite" in capsys.readouterr().err
    assert [path.name for path in (model / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ("2", "warning: --memory is 2 MiB, and TensorFlow alone takes 544; did you mean 2 GiB?"),
        ("256m", "warning: --memory is 256 MiB, and TensorFlow alone takes 544; give it 544 MiB or more"),
        ("3 PiB", "'3 PiB' is too much; memory is at most 2147483647 MiB, just under 2 PiB (units are binary"),
        ("2 PB", "'2 PB' is too much; memory is at most 2147483647 MiB, just under 2 PiB (units are binary"),
        ("-1", "'-1' is not an amount of memory"),
        ("1.5g", ""),
        ("1 PB", ""),
    ],
)
def test_memory_of_the_processes(model: Path, capsys: pytest.CaptureFixture[str], memory: str, words: str) -> None:
    """Amounts are read as those of a job file are."""
    assert run(["evaluate", str(model / "nothing"), "--memory", memory]) != 0
    shown = capsys.readouterr().err
    assert words in shown
    assert ("--memory" in shown) == bool(words)


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "{file}"], ["predict", "{file}", "--data", "x", "--out", "out"], ["lineage", "{file}"],
        ["export", "{file}", "--out", "out"], ["checkpoint", "ls", "{file}"],
    ],
)  # fmt: skip
def test_a_job_file_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    file = tmp_path / "job.yaml"
    file.touch()
    assert run([word.format(file=file) for word in words]) == 2
    message = "is a job file; MODEL is a job, a directory of checkpoints, a manifest or an exported model"
    assert f"{file} {message}" in capsys.readouterr().err


@pytest.fixture
def scoring(model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model can be used, but a test says what its processes do."""
    found = SavedModel(find_model(load_config(), str(model / "day")), mock.Mock(), b"")
    monkeypatch.setattr(predict, "saved_model", lambda config, named: found)
    monkeypatch.setattr(predict, "input_files", lambda globs: [NumberedFile(0, "f")])
    return model


def test_who_finds_the_scores_of_another_run_says_so(
    scoring: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write_meanwhile(*arguments: object, **named: object) -> list[OfflineResult]:
        storage.write_bytes(f"{scoring}/out/_SUCCESS", b"")
        return [OfflineResult()]

    monkeypatch.setattr(predict, "run", write_meanwhile)
    assert run(["predict", str(scoring / "day"), "--data", "f", "--out", str(scoring / "out")]) == 1
    assert f"{scoring}/out was written by another run while this one scored" in capsys.readouterr().err
    assert not list(scoring.glob(".out.*"))


def test_what_a_run_that_was_killed_has_left_is_named(
    scoring: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".out.0123456789ab.tmp", ".out2.0123456789ab.tmp", ".out.backup.tmp"):
        (scoring / name).mkdir()
    monkeypatch.setattr(predict, "run", lambda *arguments, **named: [OfflineResult()])
    assert run(["predict", str(scoring / "day"), "--data", "f", "--out", str(scoring / "out")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert told == [
        f"note: {scoring}/.out.0123456789ab.tmp is of another run with this --out; if that was killed, remove it"
    ]


def test_a_checkpoint_that_the_job_removes_meanwhile_is_followed_by_the_newest(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, monday = find_model(load_config(), str(model / "day")), str(model / "monday")
    asked: list[str] = []

    def measure(found: SavedModel, *arguments: object, **named: object) -> list[OfflineResult]:
        asked.append(found.ref.url)
        if len(asked) == 1:
            commit(storage.parent(first.url), replace(first.manifest, step=30, directory="g000001-y"))
            storage.delete(first.url)
        if len(asked) < 3:
            raise NotFound("no such file")
        return [OfflineResult(metrics={"auc": 0.5})]

    monkeypatch.setattr(evaluate, "saved_model", lambda config, named: SavedModel(
        find_model(config, named), mock.Mock(), b""))  # fmt: skip
    monkeypatch.setattr(evaluate, "input_files", lambda globs: [NumberedFile(0, "f")])
    monkeypatch.setattr(evaluate, "run", measure)
    assert run(["evaluate", str(model / "day"), "--data", monday]) == 5, "the second is there: a file is missing"
    assert "no such file: the job keeps its newest checkpoints alone" in capsys.readouterr().err
    assert run(["evaluate", str(model / "day"), "--data", monday]) == 0
    assert "(step 30)" in capsys.readouterr().out

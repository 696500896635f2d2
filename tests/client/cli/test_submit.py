"""`afo submit` around a runtime that only pretends to start jobs."""

import json
import os
import signal
from pathlib import Path

import pytest

from afo.errors import PermissionDenied
from afo.protocol.am_config import AmConfig
from afo.site.user_state import UserState
from afo_client.cli.main import run
from afo_client.runtimes.yarn.staging import StagedFile
from afo_client.runtimes.yarn.yarn_jobs import sent_text
from fake_runtime import small_job, use_fake_runtime

JOB = "local_1_0001"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_job(tmp_path, monkeypatch)


def submit(folder: Path, *arguments: str) -> int:
    return run(["submit", str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02", *arguments])


def test_the_id_stands_alone_on_stdout(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    assert submit(folder) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{JOB}\n"
    assert f"{JOB} SUCCEEDED" in captured.err
    assert f"{folder}/out/2026-01-02" in captured.err
    config, schema, _ = fake.submitted[0]
    assert config.train_files == (f"{folder}/a.tfrecord",)
    assert config.jobs_root == f"{folder}/state/jobs"
    assert schema == (folder / "schema.yaml").read_text()
    assert UserState(folder / "state").last_job() == JOB


@pytest.mark.parametrize("options", [(), ("--idempotency-key", "k"), ("--dry-run",), ("--limit", "2")])
def test_the_state_is_private_with_any_umask(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    use_fake_runtime(monkeypatch, "SUCCEEDED")
    before = os.umask(0)
    try:
        assert submit(folder, *options) == 0
    finally:
        os.umask(before)
    assert (folder / "state").stat().st_mode & 0o777 == 0o700


def test_no_job_is_started_whose_secret_cannot_be_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "RUNNING")
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    (folder / "state").write_text("no directory")
    assert submit(folder) == 4
    assert fake.submitted == []
    assert "AFO_STATE_DIR" in capsys.readouterr().err


@pytest.mark.parametrize(("state", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("KILLED", 8)])
def test_wait_json_prints_one_object(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, code: int
) -> None:
    use_fake_runtime(monkeypatch, state)
    assert submit(folder, "--wait", "--json") == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    fields = json.loads(lines[0])
    assert (fields["api"], fields["application_id"], fields["state"]) == ("afo/v1", JOB, state)
    assert (fields["metrics"]["auc"], fields["samples"], fields["seconds"]) == (0.9, 8, 2.0)
    assert fields["places"]["model"] == f"{folder}/out/2026-01-02"


def test_a_detached_job_keeps_its_secret_with_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "RUNNING")
    assert submit(folder, "--detach", "--json") == 0
    assert json.loads(capsys.readouterr().out)["application_id"] == JOB
    state = UserState(folder / "state")
    assert state.secret(JOB) == fake.submitted[0][2]
    assert state.secret_file(JOB).stat().st_mode & 0o777 == 0o600


def test_the_timeout_leaves_the_job_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_fake_runtime(monkeypatch, "RUNNING")
    assert submit(folder, "--timeout", "0s") == 7
    captured = capsys.readouterr()
    assert captured.out == f"{JOB}\n"
    assert "it goes on" in captured.err


def test_ctrl_c_while_starting_waits_until_the_id_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "RUNNING")
    submit_there = fake.submit

    def interrupted(config: AmConfig, schema: str, secret: str, tell: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return submit_there(config, schema, secret, tell)

    monkeypatch.setattr(fake, "submit", interrupted)
    assert submit(folder) == 130
    captured = capsys.readouterr()
    assert UserState(folder / "state").last_job() == JOB
    assert f"afo kill {JOB}" in captured.err


def test_a_runtime_that_refuses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(config: AmConfig, schema: str, secret: str, tell: object) -> str:
        raise PermissionDenied("not you")

    monkeypatch.setattr(use_fake_runtime(monkeypatch, "RUNNING"), "submit", refuse)
    assert submit(folder) == 4
    assert capsys.readouterr().out == ""
    assert UserState(folder / "state").last_job() is None


def test_a_dry_run_shows_every_task(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(folder, "--dry-run") == 0
    plan = json.loads(capsys.readouterr().out)
    tasks = {task["task"]: task for task in plan["tasks"]}
    assert list(tasks) == ["worker:0", "ps:0", "ps:1", "evaluator:0"]
    assert tasks["worker:0"]["environment"]["OMP_NUM_THREADS"] == "3"
    assert tasks["worker:0"]["environment"]["MALLOC_ARENA_MAX"] == "16"
    assert tasks["ps:1"]["tf_config"]["task"] == {"type": "ps", "index": 1}
    assert "evaluator" not in tasks["ps:1"]["tf_config"]["cluster"]
    assert plan["submission"]
    assert not (folder / "state" / "last-job").exists()


def test_what_was_sent_is_said() -> None:
    files = [StagedFile(name=name, url="u", size=size, sent=sent) for name, size, sent in
             (("env", 3 << 20, True), ("conf", 1024, True), ("schema", 5, False), ("far", 0, False))]  # fmt: skip
    assert sent_text(files) == "sent 3.0 MiB in 2 files to the cluster; 2 were there already"
    assert sent_text(files[2:]) == "sent 0 B in 0 files to the cluster; 2 were there already"

"""`afo resubmit`: the job file of that time, whatever has become of the file since."""

import json
from pathlib import Path

import pytest

from afo.site.user_state import UserState
from afo_client.cli.main import run
from fake_runtime import FakeRuntime, small_job, use_fake_runtime


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    """A job that was submitted with a setting and a variable; its job file is gone."""
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    folder = small_job(tmp_path, monkeypatch)
    submit = ["submit", str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02"]
    assert run([*submit, "--set", "data.epochs=2"]) == 0
    (folder / "job.yaml").unlink()
    return fake


def test_the_last_job_again(first: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["resubmit"]) == 0
    assert capsys.readouterr().out == "local_2_0001\n"
    once, twice = (config for config, _, _ in first.submitted)
    assert twice.job == once.job
    assert twice.job.data.epochs == 2
    assert twice.source == once.source


def test_with_changes_which_the_next_one_keeps(first: FakeRuntime, tmp_path: Path) -> None:
    changes = ["--var", "dt=2026-01-03", "--set", "roles.worker.instances=4", "--detach"]
    assert run(["resubmit", "local_1_0001", *changes]) == 0
    assert run(["resubmit", "--detach"]) == 0
    for config, _, _ in first.submitted[1:]:
        assert config.job.export.dir == f"{tmp_path}/out/2026-01-03"
        assert config.job.roles["worker"].instances == 4
        assert config.job.data.epochs == 2
    assert UserState(tmp_path / "state").last_job() == "local_3_0001"


def test_a_wrong_change_names_the_job_whose_file_it_is(first: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resubmit", "--set", "data.epoch=2"]) == 3
    assert "did you mean `epochs`?" in capsys.readouterr().err
    assert len(first.submitted) == 1


def test_a_dry_run_starts_nothing(first: FakeRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["resubmit", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["runtime"] == "local"
    assert len(first.submitted) == 1

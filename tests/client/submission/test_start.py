"""What a submission to YARN leaves for others to see before there is an Application Master."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from afo import storage
from afo.data.prepare.profile import Profile
from afo.errors import PermissionDenied
from afo.formats import json_file
from afo.job import Data, Environment, Job, RoleSpec
from afo.job_dir.code_snapshot import decode_snapshot
from afo.protocol.am_config import AmConfig
from afo.site.config import load_config
from afo_client.runtimes.yarn import skein_driver
from afo_client.submission import history_files, start
from afo_client.submission.inspection import Inspection
from afo_client.submission.plan import Plan
from fake_resource_manager import FakeResourceManager

JOB = "application_1_0001"
STATISTICS = Profile(records=1, evaluation=0, label="click", positive=None, features=())


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AmConfig]:
    """A job that YARN takes."""
    manager = FakeResourceManager()
    manager.write_configuration(tmp_path / "conf", fs__defaultFS=f"file://{tmp_path}/fs")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    job = Job(name="clicks", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(schema="s", train=("a",)))
    config = AmConfig(
        job=job, user="ann", afo_version="1", runtime="yarn", jobs_root=str(tmp_path / "jobs"), train_files=("a",),
        secret_file="", schema_file="",
    )  # fmt: skip
    monkeypatch.setattr(history_files, "feature_statistics", lambda *_: STATISTICS)
    monkeypatch.setattr(skein_driver, "submit", lambda _: JOB)
    yield config
    manager.stop()


def start_it(config: AmConfig) -> None:
    assert start.start_job(Plan(load_config("yarn"), Inspection(b"", (), ()), config)).job_id == JOB


def test_the_job_has_its_file_before_its_application_master_runs(submitted: AmConfig, tmp_path: Path) -> None:
    start_it(submitted)
    folder = tmp_path / "jobs" / JOB
    assert sorted(each.name for each in folder.iterdir()) == ["features.json", "job.json"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert json_file.read(str(folder / "job.json"), AmConfig).job_id == JOB


def test_the_code_is_kept_as_it_was_sent(
    submitted: AmConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "layers.py"
    code.write_text("x = 1\n")
    job = replace(submitted.job, environment=Environment(files=(str(code),)))

    def sends(_: object) -> str:
        code.write_text("x = 2\n")
        return JOB

    monkeypatch.setattr(skein_driver, "submit", sends)
    start_it(replace(submitted, job=job))
    kept = tmp_path / "jobs" / JOB / "code.json"
    assert [each.text for each in decode_snapshot(kept.read_bytes(), "code.json").files] == ["x = 1\n"]
    kept.unlink()
    kept.mkdir()
    start_it(replace(submitted, job=job))
    assert f"{JOB}/code.json is not kept: " in capsys.readouterr().err


def test_what_the_application_master_wrote_stays(submitted: AmConfig, tmp_path: Path) -> None:
    file = tmp_path / "jobs" / JOB / "job.json"
    file.parent.mkdir(parents=True)
    file.write_text("the master's")
    start_it(submitted)
    assert file.read_text() == "the master's"


def test_a_job_goes_on_where_its_file_cannot_be_written(
    submitted: AmConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_dirs = storage.make_dirs

    def refuses(url: str, **options: Any) -> None:
        if JOB in url:
            raise PermissionDenied("cannot make the directory")
        make_dirs(url, **options)

    monkeypatch.setattr(storage, "make_dirs", refuses)
    start_it(submitted)
    assert f"knows of {JOB} once its Application Master runs: cannot make the directory" in capsys.readouterr().err

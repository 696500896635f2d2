"""Two jobs that would write their models to one place."""

import fcntl
from pathlib import Path

import pytest

from afo.formats import json_file
from afo.job import Data, Export, Job, RoleSpec
from afo.job.paths import JobPaths
from afo.job_dir.local_job import am_lock
from afo.protocol.am_config import AmConfig
from afo.site.config import RuntimeName
from afo_client.submission.shared_export import export_warnings


def job(export: str) -> Job:
    roles = {"ps": RoleSpec(), "worker": RoleSpec()}
    return Job(name="x", roles=roles, data=Data(schema="s", train=("a",)), export=Export(dir=export))


def write(root: Path, job_id: str, export: str, runtime: RuntimeName = "yarn") -> JobPaths:
    paths = JobPaths(str(root), job_id)
    Path(paths.dir).mkdir(parents=True)
    config = AmConfig(
        job=job(export), user="ann", afo_version="1", runtime=runtime, jobs_root=str(root), train_files=("a",),
        secret_file="", schema_file="",
    )  # fmt: skip
    Path(paths.job).write_bytes(json_file.encode(config))
    return paths


def test_a_live_job_with_the_same_directory_is_named(tmp_path: Path) -> None:
    root, models = tmp_path / "jobs", f"{tmp_path}/models"
    assert list(export_warnings(job(models), str(root))) == []
    first = write(root, "application_1_0001", f"file://{models}/")
    write(root, "application_1_0002", f"{models}/other")
    write(root, "application_1_0003", "")
    Path(JobPaths(str(root), "application_1_0004").dir).mkdir()
    (warning,) = export_warnings(job(models), str(root))
    assert warning.startswith("$.export.dir: application_1_0001 has not ended and exports to ")
    assert list(export_warnings(job(""), str(root))) == []
    Path(first.verdict).touch()
    assert list(export_warnings(job(models), str(root))) == []


@pytest.mark.parametrize("lives", [True, False])
def test_a_local_job_that_was_killed_is_none(tmp_path: Path, lives: bool) -> None:
    lock = am_lock(write(tmp_path, "local_1_0001", "/models", "local"))
    lock.parent.mkdir()
    with lock.open("w") as held:
        if lives:
            fcntl.flock(held, fcntl.LOCK_EX)
        assert len(list(export_warnings(job("/models"), str(tmp_path)))) == lives

"""`afo ls` over directories that others write."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from afo import storage, submission
from afo_client.main import afo
from damage import HOSTILE
from job_writer import DONE, RUNNING, JobWriter

AM_CONFIG = f"am/{submission.AM_CONFIG}"


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", ["job.json", "verdict.json", AM_CONFIG])
def test_what_lies_in_one_directory_hides_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    JobWriter(str(tmp_path), DONE, "whole").begin().end("SUCCEEDED", "succeeded", auc=0.75)
    other = JobWriter(str(tmp_path), RUNNING, "other").begin()
    storage.write_bytes(f"{other.paths.dir}/{name}", data)
    done = CliRunner().invoke(afo, ["ls", "--runtime", "local", "--json"])
    assert done.exit_code == 0, done.output
    jobs = {job["application_id"]: job for job in json.loads(done.stdout)["jobs"]}
    assert jobs[DONE]["state"] == "SUCCEEDED"
    assert RUNNING in jobs

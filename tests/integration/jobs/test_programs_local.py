"""The three kinds of own programs on the `local` runtime, each with the process of one task killed."""

from pathlib import Path

import pytest

from conf_programs import CASES, check_result, job_file, kill_after_a_save
from live_job import LiveJob

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.mark.parametrize("name", CASES)
def test_a_program_survives_the_kill_of_a_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    job = LiveJob.submit(job_file(name, tmp_path), str(tmp_path / "jobs"), "--runtime", "local")
    kill_after_a_save(job, *CASES[name][1])
    check_result(job, name)

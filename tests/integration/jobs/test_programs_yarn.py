"""The three kinds of own programs on real YARN and HDFS, at the same time, each with the process of one task killed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from afo.site.config import user_name
from afo_client.hadoop import Cluster
from conf_programs import CASES, check_result, job_file, kill_after_a_save
from live_job import LiveJob

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_programs_survive_the_kill_of_a_task(hadoop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFO_JOBS_ROOT", "AFO_CONF_DIR", "AFO_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    root = f"{hadoop.hdfs_uri}/user/{user_name()}/.afo/jobs"

    def survives(name: str) -> None:
        job = LiveJob.submit(job_file(name, tmp_path), root, "--runtime", "yarn")
        kill_after_a_save(job, *CASES[name][1])
        check_result(job, name)

    with ThreadPoolExecutor(len(CASES)) as pool:
        list(pool.map(survives, CASES))

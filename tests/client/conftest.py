"""A job whose Application Master a test plays."""

from pathlib import Path

import pytest

from afo.job.paths import JobPaths
from afo.rpc.wire import new_secret
from afo.site.user_state import UserState


@pytest.fixture
def played_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[JobPaths, str]:
    """Its directory and secret, as its submitter `ann` has them; it is the last job that was submitted."""
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")
    paths = JobPaths(str(tmp_path / "jobs"), "local_1_0001")
    Path(paths.dir).mkdir(parents=True)
    state, secret = UserState(tmp_path / "state"), new_secret()
    state.keep_secret(paths.job_id, secret)
    state.remember_last(paths.job_id)
    return paths, secret

"""A Hadoop with Kerberos whose web interfaces know nobody, as Hadoop comes: they tell all, and take no orders."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos_realm
from afo import storage
from afo.errors import PermissionDenied
from afo.site.config import load_config
from afo.site.user_state import UserState
from afo.yarn.resource_manager import from_configuration
from hadoop_kerberos import SecuredCluster, long_job, secured
from live_job import afo

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """See `kerberos_realm.demand`."""
    kerberos_realm.demand()
    with secured(tmp_path_factory.mktemp("open-web"), open_web=True) as found:
        yield found


@pytest.mark.tensorflow
def test_a_job_is_submitted_and_ended_by_force(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = long_job(cluster, tmp_path, monkeypatch)
    with pytest.raises(PermissionDenied, match="static user"):
        from_configuration("alice").kill(job.id)
    UserState(load_config().state_dir).forget_secret(job.id)
    done = afo("kill", job.id, "--yes")
    assert done.returncode == 0, done.stderr
    assert "the job's secret is not here" in done.stderr
    assert from_configuration().application(job.id).state == "KILLED"
    assert not storage.exists(f"{cluster.url}/user/alice/.skein/{job.id}"), "which nobody else would remove"
    job.wait_for_no_process()

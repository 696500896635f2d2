"""A Hadoop with Kerberos whose web interfaces know nobody, as Hadoop comes: they tell all, and take no orders."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos
from adult import REPOSITORY
from afo import storage
from afo.config import load_config
from afo.errors import PermissionDenied
from afo.resource_manager import from_configuration
from afo.user_state import UserState
from live_job import LiveJob, afo
from secured import SecuredCluster, secured

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """See `kerberos.demand`."""
    kerberos.demand()
    with secured(tmp_path_factory.mktemp("open-web"), open_web=True) as found:
        yield found


@pytest.mark.tensorflow
def test_a_job_is_submitted_and_ended_by_force(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sign_in(monkeypatch, "alice")
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(cluster.cluster.bin_dir), prepend=":")
    home = f"{cluster.url}/user/alice"
    made = afo("data", "synth", f"{home}/clicks", "--train", "4000", "--eval", "100", "--train-files", "2")
    assert made.returncode == 0, made.stderr
    job_file, few = REPOSITORY / "conf" / "jobs" / "demo.yaml", ("ps.instances=1", "worker.instances=1")
    changes = [f"--set={each}" for each in ("data.epochs=1000", *(f"roles.{role}" for role in few))]
    job = LiveJob.submit(job_file, f"{home}/.afo/jobs", "--runtime=yarn", f"--var=data={home}/clicks", *changes)
    job.wait(lambda: job.step() > 0, "training")

    with pytest.raises(PermissionDenied, match="static user"):
        from_configuration("alice").kill(job.id)
    UserState(load_config().state_dir).forget_secret(job.id)
    done = afo("kill", job.id, "--yes")
    assert done.returncode == 0, done.stderr
    assert "the job's secret is not here" in done.stderr
    assert from_configuration().application(job.id).state == "KILLED"
    assert not storage.exists(f"{home}/.skein/{job.id}"), "which nobody else would remove"
    job.wait_for_no_process()

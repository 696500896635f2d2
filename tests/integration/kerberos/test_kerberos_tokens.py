"""A job with a keytab on a Hadoop with Kerberos goes on when the delegation tokens of its start have ended for good."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerberos_realm
from afo.events import types as ev
from afo.hadoop import delegation_tokens
from afo.hadoop.delegation_tokens import Token
from afo.storage import patience
from hadoop_kerberos import SecuredCluster, long_job, secured
from live_job import LiveJob, afo

#: Milliseconds. hdfs-native does not use a token in the last minute of its life.
LIFE_S = 120
SHORT = {f"dfs.namenode.delegation.token.{name}": f"{LIFE_S}000" for name in ("max-lifetime", "renew-interval")}
#: By which the ResourceManager fetches the files of containers that start later.
PROXY = {
    "yarn.resourcemanager.proxy-user-privileges.enabled": "true",
    "hadoop.proxyuser.yarn.hosts": "*",
    "hadoop.proxyuser.yarn.users": "*",
}

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """See `kerberos_realm.demand`."""
    kerberos_realm.demand()
    with secured(tmp_path_factory.mktemp("tokens"), others={**SHORT, **PROXY}) as found:
        yield found


@pytest.mark.tensorflow
def test_a_job_outlives_its_delegation_tokens(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = long_job(cluster, tmp_path, monkeypatch, "--keytab", str(cluster.realm.keytab("alice")))
    given = tokens_of(job)
    assert len(given) >= 3
    assert {file.stat().st_mode & 0o777 for file in given} == {0o600}
    first_day = max(delegation_tokens.last_day(token) for file in given for token in of_hdfs(file))
    job.wait(lambda: time.time() > first_day, "the end of the first tokens", 2.0 * LIFE_S)
    monkeypatch.setattr(patience, "_seconds", 60.0)  # looking at a job must not fail while its file system is away
    # A connection outlives the token that it was made with: so all of them are made anew.
    cluster.cluster.kill_daemon("namenode")
    cluster.cluster.start_daemon("namenode")
    saved = len(job.events(ev.CheckpointWritten))
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) >= saved + 2, "further checkpoints", 120)
    assert min(delegation_tokens.last_day(token) for file in given for token in of_hdfs(file)) > time.time()
    assert job.events(ev.GenerationStarted)[-1].generation == 1, "nothing was lost"
    os.kill(job.child("worker", 0).pid, signal.SIGKILL)
    job.wait(lambda: any(event.task.attempt == 1 for event in job.events(ev.TaskRegistered)), "another container", 120)
    saved = len(job.events(ev.CheckpointWritten))
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) >= saved + 2, "checkpoints by it", 120)
    done = afo("kill", job.id)
    assert done.returncode == 0, done.stderr
    assert job.verdict().state == "KILLED"
    job.wait_for_no_process()


def tokens_of(job: LiveJob) -> set[Path]:
    """The files of its containers."""
    environments = (process.environ() for process in job.processes())
    return {Path(each["HADOOP_TOKEN_FILE_LOCATION"]) for each in environments if "CONTAINER_ID" in each}


def of_hdfs(file: Path) -> list[Token]:
    """The tokens for HDFS in a file."""
    return [token for token in delegation_tokens.parse(file.read_bytes()) if token.kind == delegation_tokens.HDFS]

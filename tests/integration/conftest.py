"""One real Hadoop for the tests of a session that ask for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adult import AdultData, convert, source
from afo.errors import UsageError
from afo.site.config import user_name
from afo_client.hadoop import Cluster, ClusterSpec, processes
from afo_client.hadoop.jars import java_home, resolve_jars

#: Queues get back what belongs to them, within seconds.
_MONITOR = "yarn.resourcemanager.monitor.capacity.preemption"
PREEMPTION = {
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    f"{_MONITOR}.monitoring_interval": "500",
    f"{_MONITOR}.max_wait_before_kill": "1000",
    f"{_MONITOR}.max_ignored_over_capacity": "0",
    f"{_MONITOR}.total_preemption_per_round": "1.0",
    f"{_MONITOR}.natural_termination_factor": "1.0",
}


@pytest.fixture(scope="session")
def hadoop_installation() -> Path:
    """The directory of Hadoop's jars. Skips where Java or Maven are missing, but fails in continuous integration."""
    try:
        java_home()
        return resolve_jars()
    except UsageError as missing:
        if os.environ.get("CI"):
            pytest.fail(f"continuous integration must run the tests on Hadoop: {missing}")
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def hadoop(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster with two NodeManagers, to which $HADOOP_CONF_DIR and $PATH point for the whole session.

    Tests share it: leave its daemons running, and use files and applications of your own.
    """
    cluster = Cluster(tmp_path_factory.mktemp("hadoop"))
    with pytest.MonkeyPatch.context() as patch:
        try:
            cluster.start(ClusterSpec(nodes=2, settings=PREEMPTION))
            patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
            patch.setenv("PATH", f"{cluster.bin_dir}:{os.environ['PATH']}")
            yield cluster
        finally:
            cluster.stop()
    assert cluster.running() == {}
    assert processes.containers(cluster.directory) == []


@pytest.fixture(scope="session")
def adult_source() -> Path:
    """The directory of Adult's own files; without them no test starts a cluster for nothing."""
    return source()


@pytest.fixture(scope="session")
def adult(adult_source: Path, hadoop: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdultData]:
    """Adult in the session's HDFS, and a home of their own for the secrets of the jobs that read it."""
    data = AdultData(f"{hadoop.hdfs_uri}/data/adult", f"{hadoop.hdfs_uri}/user/{user_name()}/.afo/jobs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFO_STATE_DIR", str(tmp_path_factory.mktemp("afo-state")))
        for name in ("AFO_JOBS_ROOT", "AFO_CONF_DIR", "AFO_RUNTIME"):
            patch.delenv(name, raising=False)
        convert(adult_source, data.url)
        yield data

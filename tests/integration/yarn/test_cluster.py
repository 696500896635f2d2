"""`afo cluster` on real daemons, in a cluster of its own that these tests take apart."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import skein
from click.testing import CliRunner, Result

from afo import storage
from afo.errors import ClusterUnreachable, NotFound, UsageError
from afo.formats.units import Duration, Memory
from afo_client.cli.cluster import command
from afo_client.hadoop import Cluster, ClusterSpec, health, processes

pytestmark = pytest.mark.hadoop

SPEC = ClusterSpec(nodes=1, node_memory=Memory(1024), node_vcores=3, node_expiry=Duration(3))


@pytest.fixture(scope="module")
def cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start(SPEC)
        yield made
    finally:
        made.stop()
    assert made.running() == {}


def afo_cluster(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.1)


def node_states(cluster: Cluster) -> list[str]:
    return [node.state for node in health.nodes(cluster.known_spec()) or []]


def test_status_tells_what_runs_and_what_it_offers(cluster: Cluster) -> None:
    result = afo_cluster("status", "--dir", str(cluster.directory), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["api"], found["state"]) == ("afo/v1", "running")
    assert [each["name"] for each in found["daemons"]] == ["namenode", "datanode", "resourcemanager", "nodemanager-1"]
    assert all(each["pid"] and each["web"].startswith("http://127.") for each in found["daemons"])
    assert (found["nodes"][0]["free_memory"], found["nodes"][0]["free_vcores"]) == (1024, 3)
    assert found["hdfs"]["uri"] == cluster.hdfs_uri
    assert not found["hdfs"]["safe_mode"]


def test_env_prints_what_a_shell_needs(cluster: Cluster) -> None:
    printed = afo_cluster("env", "--dir", str(cluster.directory)).stdout
    assert f"export HADOOP_CONF_DIR={cluster.directory}/conf" in printed
    assert f'export PATH={cluster.directory}/bin:"$PATH"' in printed


def test_starting_again_starts_nothing(cluster: Cluster) -> None:
    before = {name: process.pid for name, process in cluster.running().items()}
    result = afo_cluster("start", "--dir", str(cluster.directory))
    assert result.exit_code == 0, result.output
    assert {name: process.pid for name, process in cluster.running().items()} == before


def test_other_options_are_refused_while_it_runs(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="with other options runs"):
        cluster.start(ClusterSpec(nodes=2))


@pytest.mark.slow
def test_a_killed_nodemanager_is_seen_and_comes_back(cluster: Cluster) -> None:
    cluster.kill_daemon("nodemanager-1")
    result = afo_cluster("status", "--dir", str(cluster.directory), "--json")
    assert result.exit_code == 6
    assert json.loads(result.stdout)["state"] == "partial"
    wait_for(lambda: "RUNNING" not in node_states(cluster))
    cluster.start_daemon("nodemanager-1")
    assert "RUNNING" in node_states(cluster)
    with pytest.raises(NotFound, match="it has namenode, datanode, resourcemanager, nodemanager-1"):
        cluster.kill_daemon("nodemanager-2")


@pytest.mark.slow
def test_stop_leaves_no_process_and_a_restart_finds_the_files(cluster: Cluster) -> None:
    storage.write_bytes(f"{cluster.hdfs_uri}/kept", b"data")
    uri = cluster.hdfs_uri
    ports = [address for name in ("namenode", "datanode") for address in cluster.daemon(name).addresses]
    assert afo_cluster("stop", "--dir", str(cluster.directory)).exit_code == 0
    assert cluster.running() == {}
    assert processes.containers(cluster.directory) == []
    for address in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(address) != 0
    assert afo_cluster("status", "--dir", str(cluster.directory)).exit_code == 6
    cluster.start(SPEC)
    assert cluster.hdfs_uri == uri
    assert storage.read_bytes(f"{uri}/kept") == b"data"


@pytest.mark.slow
def test_a_daemon_that_cannot_start_is_named_with_its_log_and_leaves_nothing(
    hadoop_installation: Path, tmp_path: Path
) -> None:
    broken = Cluster(tmp_path / "broken")
    settings = {"yarn.resourcemanager.scheduler.class": "no.such.Scheduler"}
    with pytest.raises(ClusterUnreachable, match=r"(?s)resourcemanager ended while starting.*no\.such\.Scheduler"):
        broken.start(ClusterSpec(nodes=1, settings=settings))
    assert broken.running() == {}


def test_a_taken_port_is_named(hadoop_installation: Path, cluster: Cluster, tmp_path: Path) -> None:
    base = cluster.known_spec().port_base
    with pytest.raises(UsageError, match=rf"namenode cannot listen on 127\.0\.0\.1:{base}.*--port-base"):
        Cluster(tmp_path / "second").start(ClusterSpec(nodes=1, port_base=base))


def test_no_cluster_in_a_directory(tmp_path: Path) -> None:
    for verb in ("status", "stop", "env"):
        assert isinstance(afo_cluster(verb, "--dir", str(tmp_path / "none")).exception, NotFound)
    assert not (tmp_path / "none").exists()


def test_missing_java_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match="Java is missing; install"):
        Cluster(tmp_path / "c").start(ClusterSpec())


def test_missing_maven_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setenv("AFO_CACHE_DIR", os.fspath(tmp_path / "cache"))
    with pytest.raises(UsageError, match="Maven is missing; install"):
        Cluster(tmp_path / "c").start(ClusterSpec())


@pytest.mark.slow
def test_stop_ends_the_containers_that_a_killed_nodemanager_orphaned(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
    monkeypatch.setenv("PATH", f"{cluster.bin_dir}:{os.environ['PATH']}")
    master = skein.Master(resources=skein.Resources(memory="256 MiB", vcores=1), script="sleep 1000")
    with skein.Client(security=skein.Security.new_credentials()) as client:
        application = client.submit(skein.ApplicationSpec(name="sleeper", master=master))
        wait_for(lambda: client.application_report(application).state == "RUNNING")
        wait_for(lambda: any("sleep" in process.name() for process in processes.containers(cluster.directory)))
        cluster.kill_daemon("nodemanager-1")
        assert processes.containers(cluster.directory) != []
    cluster.stop()
    assert processes.containers(cluster.directory) == []
    assert cluster.running() == {}

"""A packed environment on a real YARN whose nodes have no Python of their own."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from afo import events as ev
from afo.config import user_name
from afo_client.hadoop import Cluster, ClusterSpec
from bare_node import hide_from_nodes, require_namespaces
from live_job import LiveJob, afo

# Packs TensorFlow, and unpacks it again on the node.
pytestmark = [pytest.mark.hadoop, pytest.mark.tensorflow, pytest.mark.timeout(1800)]

JOB = """name: packed
vars: {data: data}
roles: {ps: {memory: 1 GiB}, worker: {memory: 1536 MiB}}
environment: {python: env.tar.gz}
data: {schema: "{{data}}/schema.yaml", train: ["{{data}}/train/*.tfrecord"], label: click, batch_size: 512}
model: {hidden_units: [8], embedding: {dim: 2, hash_buckets: 1000}}
"""


@pytest.fixture(scope="module")
def bare_cluster(hadoop_installation: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node without Python."""
    require_namespaces()
    cluster = Cluster(tmp_path_factory.mktemp("bare"))
    with pytest.MonkeyPatch.context() as patch:
        hide_from_nodes(patch)
        patch.setenv("AFO_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        try:
            cluster.start(ClusterSpec(nodes=1))
            patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
            patch.setenv("PATH", f"{cluster.bin_dir}:/usr/bin:/bin")
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def folder(bare_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job file, its archive beside it, its data in HDFS."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.yaml").write_text(JOB)
    url = f"{bare_cluster.hdfs_uri}/data/clicks"
    made = afo("data", "synth", url, "--train", "4000", "--eval", "100", "--train-files", "2", "--eval-files", "1")
    assert made.returncode == 0, made.stderr
    packed = afo("env", "pack", "--include", "afo[train]", "--out", str(folder / "env.tar.gz"), timeout=900)
    assert packed.returncode == 0, packed.stderr
    return folder


def test_a_node_without_python_trains(folder: Path, bare_cluster: Cluster) -> None:
    root = f"{bare_cluster.hdfs_uri}/user/{user_name()}/.afo/jobs"
    sent = []
    for _ in range(2):
        job_file, data = str(folder / "job.yaml"), f"data={bare_cluster.hdfs_uri}/data/clicks"
        done = afo("submit", job_file, "--var", data, "--wait", "--json", timeout=600)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["samples"] == 4000
        for event in LiveJob(answer["application_id"], root).events(ev.TaskRegistered):
            _is_packed(event.environment, bare_cluster)
        sent.append(next(line for line in done.stderr.splitlines() if line.startswith("sent ")))
    assert "sent 0 B in 0 files to the cluster" not in sent[0]
    assert sent[1].startswith("sent 0 B in 0 files to the cluster")


def _is_packed(facts: Mapping[str, str], cluster: Cluster) -> None:
    """The Child's Python is that of the node's cache, where YARN unpacked it once for all containers and jobs."""
    assert facts["python_executable"] == f"{facts['python_prefix']}/bin/python"
    assert str(cluster.directory) in facts["python_prefix"]
    assert "environment" in facts["python_prefix"]

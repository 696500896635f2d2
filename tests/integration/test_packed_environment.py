"""A packed environment on a real YARN whose nodes have no Python of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from afo import events as ev
from afo import storage
from afo.config import user_name
from afo_client.hadoop import Cluster, ClusterSpec
from bare_node import hide_from_nodes, require_namespaces
from live_job import LiveJob, afo, submit_and_wait

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
    data = f"data={bare_cluster.hdfs_uri}/data/clicks"
    root = f"{bare_cluster.hdfs_uri}/user/{user_name()}/.afo/jobs"
    cache = f"{bare_cluster.hdfs_uri}/user/{user_name()}/.afo/cache"
    sent = []
    for _ in range(2):
        answer = submit_and_wait(folder / "job.yaml", "--var", data)
        assert answer["samples"] == 4000
        job = LiveJob(str(answer["application_id"]), root)
        for event in job.events(ev.TaskRegistered):
            facts = event.environment
            assert facts["python_executable"] == f"{facts['python_prefix']}/bin/python"
            # Of the node's cache, where YARN unpacked it once for all containers and jobs.
            assert str(bare_cluster.directory) in facts["python_prefix"]
            assert "environment" in facts["python_prefix"]
        sent.append({(each.url, each.size, each.modified) for each in storage.walk(cache)})
    assert sent[0] == sent[1]
    assert any(url.endswith("env.tar.gz") for url, _, _ in sent[0])

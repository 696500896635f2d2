"""A packed environment on a real YARN whose nodes have no Python of their own."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from afo.events import types as ev
from afo.site.config import user_name
from afo_client.hadoop import Cluster, ClusterSpec
from bare_node import hide_from_nodes, require_namespaces
from live_job import LiveJob, afo

# Packs TensorFlow, and unpacks it again on the node.
pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.timeout(1800)]

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


def test_a_node_without_python_trains_and_the_second_submission_sends_nothing(
    folder: Path, bare_cluster: Cluster
) -> None:
    root = f"{bare_cluster.hdfs_uri}/user/{user_name()}/.afo/jobs"
    command = ["submit", str(folder / "job.yaml"), "--var", f"data={bare_cluster.hdfs_uri}/data/clicks"]
    first = afo(*command, "--wait", "--json", timeout=900)
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    assert answer["samples"] == 4000
    registered = LiveJob(answer["application_id"], root).events(ev.TaskRegistered)
    assert {event.task.role for event in registered} == {"ps", "worker"}
    for event in registered:
        _is_packed(event.environment, bare_cluster)
    second = afo(*command, "--detach")
    assert second.returncode == 0, second.stderr
    assert afo("kill", second.stdout.strip()).returncode == 0
    assert _sent(first.stderr) > 100 * 1024 * 1024
    assert _sent(second.stderr) == 0


def _sent(words: str) -> int:
    """Bytes, by what the command says."""
    match = re.search(r"^sent ([\d.,]+) (B|KiB|MiB|GiB) in \d+ files? to the cluster", words, re.M)
    assert match is not None, words
    return int(float(match[1].replace(",", "")) * 1024 ** ("B", "KiB", "MiB", "GiB").index(match[2]))


def _is_packed(facts: Mapping[str, str], cluster: Cluster) -> None:
    """The Child's Python is that of the node's cache, where YARN unpacked it once for all containers and jobs."""
    assert facts["python_executable"] == f"{facts['python_prefix']}/bin/python"
    assert str(cluster.directory) in facts["python_prefix"]
    assert "environment" in facts["python_prefix"]

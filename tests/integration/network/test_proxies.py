"""A job whose environment names an HTTP proxy, in the submitting shell and in its tasks, on each runtime.

The proxy answers every request with 403 and remembers it; no connection of a job may come to it.
"""

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from afo import storage
from afo.site.config import user_name
from afo_client.hadoop import Cluster
from click_records import SCHEMA, write_files
from conf_programs import PROGRAMS
from live_job import LiveJob, afo
from refusing_proxy import RefusingProxy, refusing_proxy

pytestmark = pytest.mark.tensorflow


@dataclass(frozen=True)
class Place:
    """A runtime, and where its data and jobs lie."""

    runtime: str
    url: str
    jobs_root: str


@pytest.fixture(params=["local", pytest.param("yarn", marks=[pytest.mark.hadoop, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The settings of who submits there."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    if request.param == "local":
        monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        return Place("local", str(tmp_path), str(tmp_path / "jobs"))
    hadoop: Cluster = request.getfixturevalue("hadoop")
    monkeypatch.delenv("AFO_JOBS_ROOT", raising=False)
    return Place("yarn", f"{hadoop.hdfs_uri}/proxied", f"{hadoop.hdfs_uri}/user/{user_name()}/.afo/jobs")


@pytest.fixture
def proxy(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[RefusingProxy]:
    """One that the whole environment of this process names, and nothing that is exempt from it."""
    with refusing_proxy() as proxy:
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy", "grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name, value in proxy.environment().items():
            monkeypatch.setenv(name, value)
        yield proxy


def training(place: Place, folder: Path, variables: dict[str, str]) -> Path:
    """A job file of afo's own trainer, with all roles."""
    write_files(folder / "train", 2, 500)
    if place.runtime == "yarn":
        for file in sorted((folder / "train").iterdir()):
            storage.upload(str(file), f"{place.url}/train/{file.name}")
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "proxied",
        "roles": {role: {"memory": "1 GiB"} for role in ("ps", "worker", "evaluator")},
        "data": {"schema": "schema.yaml", "train": [f"{place.url}/train/*"], "eval": [f"{place.url}/train/*"],
                 "batch_size": 32},
        "model": {"hidden_units": [8], "embedding": {"dim": 4}},
        "environment": {"variables": variables},
    }  # fmt: skip
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


def program(folder: Path, variables: dict[str, str]) -> Path:
    """A job file of a program that makes TensorFlow's servers itself."""
    job = yaml.safe_load((PROGRAMS / "multi_worker.yaml").read_text())
    job |= {"program": str(PROGRAMS / job["program"]), "args": ["--steps", "20"]}
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "environment": {"variables": variables}}))
    return folder / "job.yaml"


@pytest.mark.parametrize("kind", ["training", "program"])
def test_no_connection_of_a_job_goes_through_a_proxy(
    kind: str, place: Place, proxy: RefusingProxy, tmp_path: Path
) -> None:
    variables = proxy.environment()
    file = training(place, tmp_path, variables) if kind == "training" else program(tmp_path, variables)
    job = LiveJob.submit(file, place.jobs_root, "--runtime", place.runtime)
    try:
        done = afo("wait", job.id)
        assert done.returncode == 0, f"{done.stderr}\n{job.story()}"
        assert afo("status", job.id).returncode == 0
    finally:
        afo("kill", "--yes", job.id)
    if place.runtime == "yarn":
        job.wait_for_application_end()
    assert proxy.visits() == []


def test_the_proxy_itself_would_be_noticed(tmp_path: Path) -> None:
    with refusing_proxy() as proxy:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy.url}))
        with pytest.raises(urllib.error.HTTPError, match="403"):
            opener.open("http://node7.invalid/ws", timeout=10)
        assert proxy.visits() == ["GET http://node7.invalid/ws HTTP/1.1"]

"""`afo submit --dry-run` on YARN: what would be asked for, role by role, against a ResourceManager that speaks HTTP."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afo_client.cli.main import run
from fake_resource_manager import FakeResourceManager
from fake_runtime import small_job

SETTINGS = (
    "roles.worker={instances: 2, memory: 2 GiB, vcores: 3, gpus: 1}",
    "environment.docker={image: 'ads/ctr:1', network: host}",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = small_job(tmp_path, monkeypatch)
    manager = FakeResourceManager()
    manager.write_configuration(tmp_path / "conf", fs__defaultFS=f"file://{tmp_path}/fs")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    yield folder
    manager.stop()


def dry_run(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    job = str(folder / "job.yaml")
    assert run(["submit", job, "--runtime", "yarn", "--var", "dt=2026-01-02", "--dry-run", *arguments]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def test_resources_and_the_image_of_each_role_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = dry_run(folder, capsys, *(word for setting in SETTINGS for word in ("--set", setting)))
    services = plan["submission"]["services"]
    assert services["worker"]["resources"] == {"memory": 2048, "vcores": 3, "gpus": 1}
    assert services["ps"]["resources"] == {"memory": 1024, "vcores": 1}
    for service in services.values():
        assert service["env"]["YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"] == "ads/ctr:1"
        assert service["script"].splitlines()[-1].startswith("exec python3 -P -m afo_child")
    tasks = {task["task"]: task for task in plan["tasks"]}
    assert [tasks[name]["gpus"] for name in ("worker:0", "worker:1", "ps:0")] == [1, 1, 0]
    assert "CUDA_VISIBLE_DEVICES" not in tasks["worker:0"]["environment"]
    assert tasks["ps:0"]["environment"]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert not (folder / "fs" / "user").exists() or not list((folder / "fs" / "user").glob("*/.afo/cache/*"))


def test_tasks_are_in_containers_of_docker_and_the_application_master_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = "environment.docker={image: 'ads/ctr:1', network: host, mounts: ['/etc/passwd:/etc/passwd:ro']}"
    submission = dry_run(folder, capsys, "--set", image)["submission"]
    for service in submission["services"].values():
        assert {name: text for name, text in service["env"].items() if name.startswith("YARN_")} == {
            "YARN_CONTAINER_RUNTIME_TYPE": "docker",
            "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "ads/ctr:1",
            "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/etc/passwd:/etc/passwd:ro",
            "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
        }
    assert "YARN_" not in json.dumps(submission["master"])


def test_no_file_of_a_job_is_for_all_users_of_a_node(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LinuxContainerExecutor keeps users apart; files of visibility PUBLIC lie outside of what it guards."""
    (folder / "own.py").write_text("")
    submission = dry_run(folder, capsys, "--set", "environment.files=[own.py]")["submission"]
    containers = [submission["master"], *submission["services"].values()]
    seen = {name: file["visibility"] for each in containers for name, file in each["files"].items()}
    assert len(seen) > 4
    assert set(seen.values()) == {"PRIVATE", "APPLICATION"}
    assert seen["afo-secret"] == "APPLICATION"


def test_a_smoke_run_asks_for_one_worker(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = dry_run(folder, capsys, "--set", "roles.worker.instances=7", "--limit", "1")
    assert plan["submission"]["name"] == "clicks (first 1)"
    assert [task["task"] for task in plan["tasks"]] == ["worker:0", "ps:0", "ps:1", "evaluator:0"]


def test_an_archive_is_staged_by_its_content(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "env.tar.gz").write_bytes(b"packed")
    plan = dry_run(folder, capsys, "--set", "environment.python=env.tar.gz")
    file = plan["submission"]["services"]["ps"]["files"]["environment"]
    assert (file["type"], file["visibility"]) == ("ARCHIVE", "PRIVATE")
    # YARN unpacks by the ending of the name.
    assert file["source"].endswith(f"/.afo/cache/{hashlib.sha256(b'packed').hexdigest()}/env.tar.gz")

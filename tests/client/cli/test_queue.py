"""`afo queue` against a ResourceManager that speaks HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.formats.units import Memory
from afo.job import Data, Job, MasterSpec, RoleSpec
from afo.yarn.resource_manager import ClusterNode
from afo_client.cli.main import run
from afo_client.jobs.capacity import capacities, verdict
from fake_resource_manager import NODE, QUEUES, FakeResourceManager
from job_writer import JobWriter

JOB = "application_1_0001"
LOCAL = "local_1_0001"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResourceManager]:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    size = {"memory": 3072, "vCores": 3}
    busy = {**QUEUES["queue"][0], "minEffectiveCapacity": size, "resourcesUsed": size, "pendingContainers": 2,
            "numActiveApplications": 1, "numPendingApplications": 4,
            "resources": {"resourceUsagesByPartition": [{"pending": {"memory": 2048, "vCores": 2}}]}}  # fmt: skip
    monkeypatch.setitem(QUEUES, "queue", [busy])
    manager = FakeResourceManager()
    manager.write_configuration(tmp_path / "conf", fs__defaultFS=f"file://{tmp_path}/fs")
    yield manager
    manager.stop()


def test_the_queue_of_a_job(manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    JobWriter(str(tmp_path / "jobs"), JOB, "clicks")  # worker 2 GiB × 2, ps 2 GiB, AM 1 GiB
    manager.add_application(JOB, "ACCEPTED", diagnostics="waiting for a container")
    manager.nodes = [{**NODE, "availMemoryMB": 1536, "usedMemoryMB": 2560}]
    assert run(["queue", JOB]) == 0
    text = capsys.readouterr().out
    assert "root.default RUNNING\n  guaranteed: 3 GiB, 3 vcores\n  used: 3 GiB, 3 vcores\n" in text
    assert "waiting: 2 GiB, 2 vcores in 2 containers" in text
    assert "applications: 1 running, 4 waiting" in text
    assert f"{JOB} ACCEPTED: waiting for a container" in text
    rows = {line.split()[0]: line for line in text.splitlines() if "1536 MiB" in line or "yes" in line}
    assert rows["am"].endswith("yes")
    assert rows["worker"].endswith("no, the largest free node has 1536 MiB, 4 vcores")
    assert run(["queue", JOB, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["queue"]["pending"] == {"memory_mib": 2048, "vcores": 2}
    assert {room["role"]: room["fits"] for room in fields["containers"]} == {"am": "yes", "worker": "no", "ps": "no"}


@pytest.mark.parametrize(
    ("queue", "shown"), [("default", "2 running, 2 waiting"), ("root.default", "1 running, 3 waiting")]
)
def test_an_application_without_its_master_waits_though_the_scheduler_calls_it_active(
    manager: FakeResourceManager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    queue: str, shown: str,
) -> None:  # fmt: skip
    monkeypatch.setitem(QUEUES["queue"][0], "numActiveApplications", 4)
    monkeypatch.setitem(QUEUES["queue"][0], "numPendingApplications", 0)
    manager.add_application(JOB, "ACCEPTED", queue=queue)
    for number, (where, state) in enumerate([("default", "NEW_SAVING"), ("ads", "ACCEPTED"), ("default", "RUNNING")]):
        manager.add_application(f"application_2_{number}", state, queue=where, applicationTags="of another program")
    if queue == "root.default":
        manager.add_application("application_3_0001", "ACCEPTED", queue=queue)
    assert run(["queue", "--name", "default"]) == 0
    assert f"applications: {shown}" in capsys.readouterr().out


def test_a_queue_by_name(manager: FakeResourceManager, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queue", "--name", "default", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["queue"]["path"] == "root.default"
    assert run(["queue", "--name", "defualt"]) == 3
    assert "did you mean 'default'?" in capsys.readouterr().err


def test_a_job_whose_containers_nobody_knows_yet(
    manager: FakeResourceManager, capsys: pytest.CaptureFixture[str]
) -> None:
    manager.add_application(JOB, "ACCEPTED")
    assert run(["queue", JOB]) == 0
    assert "not known yet" in capsys.readouterr().out


def test_a_job_on_this_machine(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    JobWriter(str(tmp_path / "jobs"), LOCAL, "clicks")
    assert run(["queue", LOCAL]) == 0
    assert "no queue: its containers start at once. They may use 7 GiB in all" in capsys.readouterr().out


def node(memory: int, vcores: int, *labels: str) -> ClusterNode:
    return ClusterNode(
        host="h", state="RUNNING", memory_used=0, memory_free=memory, vcores_used=0, vcores_free=vcores, labels=labels
    )


def test_room_counts_cores_apart_and_labels_exactly() -> None:
    worker = RoleSpec(memory=Memory(2048), vcores=4, node_label="fast")
    job = Job(
        name="x", roles={"ps": RoleSpec(memory=Memory(1024)), "worker": worker}, data=Data(train=("a",)),
        am=MasterSpec(memory=Memory(512)),
    )  # fmt: skip

    def fits(*nodes: ClusterNode) -> dict[str, str]:
        return {room.role: room.fits for room in capacities(job, nodes)}

    assert fits(node(1024, 1), node(4096, 4, "fast")) == {"am": "yes", "ps": "yes", "worker": "yes"}
    assert fits(node(1024, 0), node(4096, 3, "fast")) == {"am": "memory", "ps": "memory", "worker": "memory"}
    assert fits(node(9000, 9)) == {"am": "yes", "ps": "yes", "worker": "no"}
    assert verdict(capacities(job, [node(9000, 9)])[1]).endswith("has nothing")
    # The largest node by memory is short of cores, a smaller one fits.
    assert fits(node(9000, 0), node(1024, 1))["ps"] == "yes"

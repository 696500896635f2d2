"""The machines that jobs run on: what YARN says of them, who runs where, who waits; with and without a cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from afo.events import types as ev
from afo_history_server.store.job_store import JobStore
from afo_history_server.web import nodes as pages
from afo_history_server.web.nodes import FRESH_S
from fake_resource_manager import NODE, FakeResourceManager
from job_writer import DONE, FAILED, RUNNING, JobWriter, task_id
from pages import SERVED, by, text, words

WORKER = task_id("worker")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResourceManager]:
    manager = FakeResourceManager()
    manager.write_configuration(tmp_path / "conf")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    yield manager
    manager.stop()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def jobs(writer: Callable[..., JobWriter]) -> None:
    """One with a server and a worker on n1 and a second worker that waits; one of another user; one that has ended."""
    ctr = writer(RUNNING, "ctr<b>", queue="ads").begin().task(task_id("ps"), host="n1").task(WORKER, host="n1")
    ctr.log(ev.ContainerRequested(task=task_id("worker", 1), memory=4096, vcores=2, reason=""))
    ctr.log(ev.ContainersAwaited(message="waiting for 1 of 2 workers; queue root.ads 97 % used"))
    writer(FAILED, "of bob", user="bob").begin().task(WORKER, host="n2")
    writer(DONE, "yesterday").begin().task(WORKER, host="n1").end("SUCCEEDED", "succeeded")


@pytest.mark.usefixtures("jobs")
def test_nodes_with_their_containers_and_who_waits(client: FlaskClient, cluster: FakeResourceManager) -> None:
    cluster.nodes = [
        NODE | {"usedMemoryMB": 1024, "availMemoryMB": 3072, "usedVirtualCores": 1, "availableVirtualCores": 3},
        NODE | {"nodeHostName": "n0", "state": "UNHEALTHY", "healthReport": "1/1 local-dirs <b>usable"},
    ]  # fmt: skip
    page = text(client, "/nodes")
    shown = words(page)
    assert "n0 UNHEALTHY 1/1 local-dirs &lt;b&gt;usable 0 B of 4.0 GiB" in shown, "what needs a look is at the head"
    assert "n1 RUNNING 1.0 GiB of 4.0 GiB 1 of 4 – ctr&lt;b&gt; 1 ps, 1 worker, 4.0 GiB, 2 vcores" in shown
    assert "n2 – – – – of bob 1 worker, 2.0 GiB, 1 vcore" in shown, "a machine that YARN does not name"
    assert "yesterday" not in shown
    pending = shown[shown.index("Pending containers") : shown.index("Queues")]
    assert "ctr&lt;b&gt; 1 worker, 4.0 GiB, 2 vcores ads" in pending
    assert "queue root.ads 97 % used" in pending
    assert "root.default RUNNING" in shown[shown.index("Queues") :]
    answer = client.get("/api/v1/nodes").json
    assert [(each["host"], each["state"], len(each["jobs"])) for each in answer["nodes"]] == [
        ("n0", "UNHEALTHY", 0), ("n1", "RUNNING", 1), ("n2", "", 1),
    ]  # fmt: skip
    assert answer["waiting"][0]["tasks"]["roles"] == {"worker": 1}


@pytest.mark.usefixtures("jobs", "alone")
def test_without_a_cluster_machines_are_those_of_running_jobs(client: FlaskClient) -> None:
    shown = words(text(client, "/nodes"))
    assert "No cluster is configured" in shown
    assert "n1 – – – – ctr&lt;b&gt;" in shown
    assert "Queues" not in shown


@pytest.mark.usefixtures("alone")
def test_nothing_runs(client: FlaskClient) -> None:
    shown = words(text(client, "/nodes"))
    assert "No containers are running." in shown
    assert "No job here waits for a container." in shown


@pytest.mark.usefixtures("jobs")
def test_yarn_is_asked_now_and_then_however_many_look(
    client: FlaskClient, clock: list[float], cluster: FakeResourceManager
) -> None:
    assert "n1 RUNNING" in words(text(client, "/nodes"))
    cluster.nodes = []
    assert "n1 RUNNING" in words(text(client, "/nodes")), f"asked at most every {FRESH_S} s"
    clock[0] += FRESH_S
    assert "n1 – –" in words(text(client, "/nodes"))


@pytest.mark.usefixtures("jobs")
def test_yarn_that_is_away_is_said(client: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    name = "yarn.resourcemanager.webapp.address"
    (conf / "core-site.xml").write_text(
        f"<configuration><property><name>{name}</name><value>127.0.0.1:1</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    shown = words(text(client, "/nodes"))
    assert "YARN is unreachable: the ResourceManager at http://127.0.0.1:1/ws/v1/cluster/nodes does not answer" in shown
    assert "ctr&lt;b&gt; 1 ps, 1 worker" in shown
    assert "does not answer" in client.get("/api/v1/nodes").json["problem"]


@pytest.mark.usefixtures("jobs", "alone")
def test_jobs_that_one_may_not_see_are_not_there(serve: Callable[..., FlaskClient]) -> None:
    client = serve(**SERVED)
    assert "of bob" not in client.get("/nodes", **by("alice")).text
    assert "of bob" in client.get("/nodes", **by("bob")).text


def test_a_machine_that_tasks_name_by_its_address_is_the_one_of_yarn(
    client: FlaskClient, cluster: FakeResourceManager, writer: Callable[..., JobWriter]
) -> None:
    cluster.nodes = [NODE | {"nodeHostName": "localhost"}, NODE | {"nodeHostName": "no.such.host.invalid"}]
    writer(RUNNING, "ctr").begin().task(WORKER, host="127.0.0.1").task(task_id("ps"), host="localhost")
    nodes = {each["host"]: each for each in client.get("/api/v1/nodes").json["nodes"]}
    assert set(nodes) == {"localhost", "no.such.host.invalid"}
    assert nodes["localhost"]["jobs"][0]["roles"] == {"worker": 1, "ps": 1}


def test_one_user_s_jobs_push_nobody_else_s_off_the_page(
    client: FlaskClient, writer: Callable[..., JobWriter], monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    monkeypatch.setattr(pages, "MAX_JOBS", 3)
    monkeypatch.setattr(JobStore, "owner", lambda self, job_id: "bob" if job_id.endswith("_0001") else "alice")
    for number in range(1, 9):
        writer(f"local_{number}_{number:04d}", f"job {number}").begin().task(WORKER, host="n1")
    shown = words(text(client, "/nodes"))
    assert "5 older running jobs are not shown" in shown
    assert [f"job {number}" in shown for number in (1, 2, 6, 7, 8)] == [True, False, False, True, True]


def test_a_name_server_that_is_away_is_asked_little(
    client: FlaskClient, clock: list[float], cluster: FakeResourceManager, writer: Callable[..., JobWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked: list[str] = []

    def away(address: str) -> None:
        asked.append(address)
        raise OSError("no name server")

    monkeypatch.setattr(pages.socket, "gethostbyaddr", away)
    job = writer(RUNNING, "ctr").begin()
    for number in range(10):
        job.task(task_id("worker", number), host=f"10.0.0.{number}")
    for looks in (8, 10, 10):
        assert "10.0.0.9" in text(client, "/nodes")
        assert len(asked) == looks
        clock[0] += FRESH_S

"""The ResourceManager's REST interface: addresses, answers of other schedulers and versions, errors."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError
from afo.yarn.queues import QueueUse, Resource
from afo.yarn.resource_manager import ResourceManager, web_addresses


def addresses(**settings: str) -> tuple[str, ...]:
    """Web addresses of these settings; `_` stands for `.` and a leading `yarn.resourcemanager.` is left out."""
    full = {f"yarn.resourcemanager.{name.replace('_', '.')}": value for name, value in settings.items()}
    return web_addresses(defaultdict(str, full))


def test_addresses() -> None:
    assert addresses(webapp_address="rm:9000") == ("http://rm:9000",)
    assert addresses(hostname="rm") == ("http://rm:8088",)
    assert addresses(hostname="fd00::1") == ("http://[fd00::1]:8088",)
    assert addresses(webapp_address="[fd00::1]:88") == ("http://[fd00::1]:88",)
    assert web_addresses(
        defaultdict(
            str,
            {
                "yarn.resourcemanager.hostname": "rm",
                "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:88",
            },
        )
    ) == ("http://rm:88",)


def test_addresses_with_high_availability_and_https() -> None:
    settings = {
        "yarn.http.policy": "HTTPS_ONLY",
        "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
        "yarn.resourcemanager.webapp.https.address.rm1": "a:1",
        "yarn.resourcemanager.hostname.rm2": "b",
    }
    assert web_addresses(defaultdict(str, settings)) == ("https://a:1", "https://b:8090")


def test_no_address_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ClusterUnreachable, match=r"yarn-site\.xml.*HADOOP_CONF_DIR.*afo cluster start"):
        addresses()


@pytest.fixture
def serve() -> Iterator[Callable[..., ResourceManager]]:
    """A ResourceManager with one answer to everything."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Any, status: int = 200, dead_first: bool = False) -> ResourceManager:
        body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        alive = f"http://127.0.0.1:{server.server_port}"
        return ResourceManager(("http://127.0.0.1:1", alive) if dead_first else (alive,))

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_what_a_queue_has_and_wants(serve: Callable[..., ResourceManager]) -> None:
    def use(queue: dict[str, Any]) -> QueueUse:
        info = {"queueName": "root", "queues": {"queue": [{"queueName": "ads", **queue}]}}
        return serve({"scheduler": {"schedulerInfo": info}}).queues()[0].use

    size = {"memory": 6144, "vCores": 16}
    labels = [{"partitionName": "", "pending": {"memory": 1024, "vCores": 1}},
              {"partitionName": "fast", "pending": {"memory": 512, "vCores": 2}}]  # fmt: skip
    capacity = {
        "minEffectiveCapacity": size, "maxEffectiveCapacity": {"memory": 12288, "vCores": 32}, "resourcesUsed": size,
        "pendingContainers": 3, "resources": {"resourceUsagesByPartition": labels}, "numActiveApplications": 2,
        "numPendingApplications": 1,
    }  # fmt: skip
    full = Resource(memory=6144, vcores=16)
    assert use(capacity) == QueueUse(
        guaranteed=full, most=Resource(memory=12288, vcores=32), used=full, pending=Resource(memory=1536, vcores=3),
        pending_containers=3, active=2, waiting=1,
    )  # fmt: skip
    fair = {"usedResources": size, "demandResources": {"memory": 7168, "vCores": 16}, "numPendingApps": 4}
    assert use(fair) == QueueUse(used=full, pending=Resource(memory=1024, vcores=0), waiting=4)
    assert use({}) == QueueUse()


@pytest.mark.parametrize(("scheduler", "makes"), [("fairScheduler", True), ("capacityScheduler", False)])
def test_the_fair_scheduler_makes_queues(serve: Callable[..., ResourceManager], scheduler: str, makes: bool) -> None:
    assert serve({"scheduler": {"schedulerInfo": {"type": scheduler}}}).scheduler().makes_queues is makes


def test_queues_of_each_scheduler(serve: Callable[..., ResourceManager]) -> None:
    def scheduler(info: dict[str, Any]) -> list[tuple[str, str, str]]:
        found = serve({"scheduler": {"schedulerInfo": info}}).queues()
        return [(queue.path, queue.name, queue.state) for queue in found]

    leaf = {"queueName": "train", "queuePath": "root.ads.train", "state": "STOPPED"}
    ads = {"queueName": "ads", "queuePath": "root.ads", "queues": {"queue": [leaf]}}
    assert scheduler({"type": "capacityScheduler", "queueName": "root", "queues": {"queue": [ads]}}) == [
        ("root.ads.train", "train", "STOPPED")
    ]
    old_leaf = {"queueName": "train"}
    old = {"queueName": "root", "queues": {"queue": [{"queueName": "ads", "queues": {"queue": [old_leaf]}}]}}
    assert scheduler({"type": "capacityScheduler", **old}) == [("root.ads.train", "train", "RUNNING")]
    fair_leaf = {"queueName": "root.a", "type": "fairSchedulerLeafQueueInfo"}
    fair = {"queueName": "root", "childQueues": {"queue": [fair_leaf]}}
    assert scheduler({"type": "fairScheduler", "rootQueue": fair}) == [("root.a", "a", "RUNNING")]
    assert scheduler({"type": "fifoScheduler", "capacity": 1}) == []


@pytest.mark.parametrize("nothing", [{"apps": None}, {"apps": {}}, {"apps": ""}])
def test_no_applications(serve: Callable[..., ResourceManager], nothing: dict[str, Any]) -> None:
    assert serve(nothing).applications("afo") == []


def test_the_second_of_two_managers_answers(serve: Callable[..., ResourceManager]) -> None:
    assert serve({"apps": None}, dead_first=True).applications("afo") == []


@pytest.mark.parametrize(
    ("answer", "status", "kind", "message"),
    [
        ({"RemoteException": {"message": "app with id: x not found"}}, 404, NotFound, "app with id: x not found"),
        ({"RemoteException": {"message": "who are you"}}, 403, PermissionDenied, "who are you"),
        ("<html>", 404, ClusterUnreachable, "not as a ResourceManager does: HTTP 404"),
        ("This is standby RM", 200, ClusterUnreachable, "not as a ResourceManager does"),
        ({"apps": {"app": [{"id": 7}]}}, 200, ProtocolError, "not understood.*id"),
    ],
)
def test_errors(
    serve: Callable[..., ResourceManager], answer: Any, status: int, kind: type[AfoError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        serve(answer, status).applications("afo")

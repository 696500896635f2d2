"""What YARN itself says of an application's containers, by the REST interfaces of its ResourceManager and nodes."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from afo.hadoop import conf
from afo.hadoop.delegation_tokens import RESOURCE_MANAGER
from afo.hadoop.spnego import Negotiation
from afo.yarn.resource_manager import web_addresses

Sizes = dict[str, int]
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), Negotiation(RESOURCE_MANAGER))


@dataclass(frozen=True)
class Sample:
    """One look, taken between the wall clocks `begun` and `ended`. Memory in MiB."""

    begun: float
    ended: float
    #: Container → memory, as the ResourceManager lists them.
    containers: Sizes
    #: Container → memory, as the NodeManagers list them.
    on_nodes: Sizes
    #: The ResourceManager's own sums for the application.
    allocated_memory: int
    running_containers: int


class YarnView:
    """Looks at one application of the cluster of $HADOOP_CONF_DIR."""

    def __init__(self, application: str) -> None:
        (manager,) = web_addresses(_Settings())
        self._manager = f"{manager}/ws/v1/cluster"
        self._application = application

    def sample(self) -> Sample:
        """Now."""
        begun = time.time()
        app = self._app()
        containers = {row["containerId"]: int(row["allocatedMB"]) for row in self._containers()}
        on_nodes = self.on_nodes()
        allocated, running = max(0, app["allocatedMB"]), max(0, app["runningContainers"])
        return Sample(begun, time.time(), containers, on_nodes, allocated, running)

    def state(self) -> str:
        """YARN's word for the application's state."""
        return str(self._app()["state"])

    def on_nodes(self) -> Sizes:
        """Containers of the application that live on the nodes."""
        prefix = self._application.replace("application", "container")
        rows = [row for node in self._nodes() for row in _containers_of(node)]
        live = [row for row in rows if row["id"].startswith(f"{prefix}_") and row["state"] not in ("DONE", "COMPLETE")]
        return {row["id"]: int(row["totalMemoryNeededMB"]) for row in live}

    def node_of(self, container: str) -> str:
        """The id of the node that runs it."""
        return str(next(row["nodeId"] for row in self._containers() if row["containerId"] == container))

    def other_node(self, node_id: str) -> str:
        """Of the two that this cluster has."""
        (other,) = (node["id"] for node in self._nodes() if node["id"] != node_id)
        return str(other)

    @contextmanager
    def closed_to_new_containers(self, node_id: str) -> Iterator[None]:
        """While this lasts, the node gets none."""
        node = next(node for node in self._nodes() if node["id"] == node_id)
        self._resize(node_id, 128, 1)
        try:
            yield
        finally:
            memory = node["usedMemoryMB"] + node["availMemoryMB"]
            self._resize(node_id, memory, node["usedVirtualCores"] + node["availableVirtualCores"])

    def _app(self) -> dict[str, Any]:
        app: dict[str, Any] = _ask(f"{self._manager}/apps/{self._application}")["app"]
        return app

    def _containers(self) -> list[dict[str, Any]]:
        attempt = f"{self._application.replace('application', 'appattempt')}_000001"
        answer = _ask(f"{self._manager}/apps/{self._application}/appattempts/{attempt}/containers")
        return [row for row in _rows({"": answer}, "", "container") if row["containerState"] != "COMPLETE"]

    def _nodes(self) -> list[dict[str, Any]]:
        return [row for row in _rows(_ask(f"{self._manager}/nodes"), "nodes", "node") if row["state"] == "RUNNING"]

    def _resize(self, node_id: str, memory: int, vcores: int) -> None:
        # An over-commit timeout of -1 leaves what runs there alone.
        resource = {"resource": {"memory": memory, "vCores": vcores}, "overCommitTimeout": -1}
        _ask(f"{self._manager}/nodes/{node_id}/resource?user.name=root", resource)


class _Settings(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return conf.setting(name) or ""


def _containers_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    return _rows(_ask(f"http://{node['nodeHTTPAddress']}/ws/v1/node/containers"), "containers", "container")


def _ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    with _OPENER.open(request, timeout=20) as response:
        return json.loads(response.read())


def _rows(answer: Any, outer: str, inner: str) -> list[dict[str, Any]]:
    # Nothing is `null`, and one row may come without its list.
    rows = (answer[outer] or {}).get(inner) or []
    return rows if isinstance(rows, list) else [rows]

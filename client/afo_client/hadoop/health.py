"""Health of the daemons, over their own web interfaces."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import msgspec

from afo.hadoop import delegation_tokens
from afo.hadoop.spnego import Negotiation
from afo_client.hadoop.cluster_layout import LOOPBACK, ClusterSpec, Daemon

_SECONDS = 5.0
# No proxy of the environment may come between a program and its own machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), Negotiation(delegation_tokens.RESOURCE_MANAGER))


class HdfsHealth(msgspec.Struct, frozen=True):
    """The NameNode's view. Bytes."""

    uri: str
    safe_mode: bool
    datanodes: int
    used: int
    free: int


class NodeHealth(msgspec.Struct, frozen=True):
    """The ResourceManager's view of one NodeManager. Memory in MiB."""

    id: str
    state: str
    containers: int
    used_memory: int
    free_memory: int
    used_vcores: int
    free_vcores: int


def hdfs(spec: ClusterSpec) -> HdfsHealth | None:
    """None while the NameNode does not answer."""
    ports = spec.master_ports()
    query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    answer = _get(f"http://{LOOPBACK}:{ports['namenode_web']}/{query}")
    beans = answer.get("beans") if answer else None
    if not beans:
        return None
    return HdfsHealth(
        uri=f"hdfs://{LOOPBACK}:{ports['namenode_rpc']}",
        safe_mode=beans[0]["FSState"] != "Operational",
        datanodes=beans[0]["NumLiveDataNodes"],
        used=beans[0]["CapacityUsed"],
        free=beans[0]["CapacityRemaining"],
    )


def nodes(spec: ClusterSpec) -> list[NodeHealth] | None:
    """None while the ResourceManager does not answer."""
    answer = _get(f"http://{LOOPBACK}:{spec.master_ports()['resourcemanager_web']}/ws/v1/cluster/nodes")
    if answer is None:
        return None
    return [_node(node) for node in (answer.get("nodes") or {}).get("node", [])]


def _node(node: dict[str, Any]) -> NodeHealth:
    return NodeHealth(
        id=node["id"],
        state=node["state"],
        containers=node["numContainers"],
        used_memory=node["usedMemoryMB"],
        free_memory=node["availMemoryMB"],
        used_vcores=node["usedVirtualCores"],
        free_vcores=node["availableVirtualCores"],
    )


def not_serving(awaited: list[Daemon], spec: ClusterSpec) -> list[Daemon]:
    """Those that cannot be used yet: they answer nothing, or their master does not know them."""
    name_node, yarn_nodes = hdfs(spec), nodes(spec)
    registered = {node.id.rpartition(":")[2] for node in yarn_nodes or () if node.state == "RUNNING"}

    def serves(daemon: Daemon) -> bool:
        # Asked itself too, because the masters notice a daemon's death late.
        if _get(f"{daemon.web}jmx?qry=java.lang:type=Runtime") is None:
            return False
        if daemon.name == "namenode":
            return name_node is not None and not name_node.safe_mode
        if daemon.name == "datanode":
            return name_node is not None and name_node.datanodes > 0
        if daemon.name == "resourcemanager":
            return yarn_nodes is not None
        return str(daemon.addresses[0][1]) in registered

    return [daemon for daemon in awaited if not serves(daemon)]


def _get(url: str) -> dict[str, Any] | None:
    try:
        with _OPENER.open(url, timeout=_SECONDS) as answer:
            found = json.load(answer)
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError):
        return None
    return found if isinstance(found, dict) else None

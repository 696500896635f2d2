"""Layout of a cluster on this machine (`ClusterSpec`): where its parts lie and listen. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from afo.errors import UsageError
from afo.formats.units import Duration, Memory

MAX_NODES = 20
#: Ports of the masters, by offset from the base; node i has the ten from base + 10 * i.
_MASTER_PORTS = (
    "namenode_rpc",
    "namenode_web",
    "datanode_data",
    "datanode_web",
    "datanode_rpc",
    "resourcemanager_client",
    "resourcemanager_scheduler",
    "resourcemanager_tracker",
    "resourcemanager_admin",
    "resourcemanager_web",
)
_NODE_PORTS = ("rpc", "localizer", "web", "collector", "amrmproxy")
LOOPBACK = "127.0.0.1"


def default_directory() -> Path:
    """`$AFO_CLUSTER_DIR`, else `~/.afo/cluster`."""
    return Path(os.environ.get("AFO_CLUSTER_DIR") or Path.home() / ".afo" / "cluster")


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides a cluster, kept in `<directory>/cluster.json` so that a restart is the same cluster."""

    nodes: int = 2
    node_memory: Memory = Memory(6 * 1024)  #: MiB that each NodeManager offers
    node_vcores: int = 16
    node_expiry: Duration = Duration(20)  #: silence after which the ResourceManager calls a node lost
    port_base: int = 0  #: first of 10 * (nodes + 1) consecutive ports; 0 until some are chosen
    hadoop: str = ""  #: version, e.g. 2.10.2; '' is the one that pom.xml names
    settings: dict[str, str] = {}  #: further Hadoop properties, over those of the templates

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MAX_NODES:
            raise UsageError(f"--nodes is {self.nodes}; it must be from 1 to {MAX_NODES}")
        if self.node_memory < 512:
            raise UsageError(f"--node-memory is {self.node_memory}; a node needs at least 512 MiB")
        if self.node_vcores < 1:
            raise UsageError(f"--node-vcores is {self.node_vcores}; it must be at least 1")
        if self.hadoop and not re.fullmatch(r"\d+\.\d+\.\d+", self.hadoop):
            raise UsageError(
                f"--hadoop is {self.hadoop!r}; give a released version of three numbers, e.g. 3.3.6, or leave it out"
            )
        if self.port_base and not 1024 <= self.port_base <= 65535 - self.port_count:
            raise UsageError(f"--port-base is {self.port_base}; it must be from 1024 to {65535 - self.port_count}")

    @property
    def port_count(self) -> int:
        return 10 * (self.nodes + 1)

    def master_ports(self) -> dict[str, int]:
        """Port by name, e.g. `namenode_rpc`."""
        return {name: self.port_base + offset for offset, name in enumerate(_MASTER_PORTS)}

    def node_ports(self, index: int) -> dict[str, int]:
        """Ports of NodeManager `index` (from 1) by name, e.g. `web`."""
        return {name: self.port_base + 10 * index + offset for offset, name in enumerate(_NODE_PORTS)}


def node_host(index: int) -> str:
    """The loopback address of NodeManager `index` (from 1): each has its own, so that YARN sees distinct hosts."""
    return f"127.0.0.{index}"


@dataclass(frozen=True)
class Daemon:
    """One process of the cluster."""

    name: str
    main_class: str
    conf_dir: Path
    log: Path
    addresses: tuple[tuple[str, int], ...]  #: what it listens on
    web: str


_MASTERS = (
    ("namenode", "org.apache.hadoop.hdfs.server.namenode.NameNode"),
    ("datanode", "org.apache.hadoop.hdfs.server.datanode.DataNode"),
    ("resourcemanager", "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"),
)
_NODE_CLASS = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"


def daemons(directory: Path, spec: ClusterSpec) -> list[Daemon]:
    """The daemons in the order in which they start."""
    ports = spec.master_ports()
    masters = [
        Daemon(
            name=name,
            main_class=main_class,
            conf_dir=directory / "conf",
            log=directory / "logs" / f"{name}.log",
            addresses=tuple((LOOPBACK, port) for key, port in ports.items() if key.startswith(f"{name}_")),
            web=f"http://{LOOPBACK}:{ports[f'{name}_web']}/",
        )
        for name, main_class in _MASTERS
    ]
    return masters + [_node(directory, spec, index) for index in range(1, spec.nodes + 1)]


def node_name(index: int) -> str:
    """The daemon name of NodeManager `index` (from 1)."""
    return f"nodemanager-{index}"


def _node(directory: Path, spec: ClusterSpec, index: int) -> Daemon:
    ports, host, name = spec.node_ports(index), node_host(index), node_name(index)
    listening = ("rpc", "localizer", "web", "collector")
    return Daemon(
        name=name,
        main_class=_NODE_CLASS,
        conf_dir=directory / name / "conf",
        log=directory / "logs" / f"{name}.log",
        addresses=tuple((host, ports[key]) for key in listening),
        web=f"http://{host}:{ports['web']}/",
    )

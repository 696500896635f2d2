"""The state of a cluster, as `afo cluster status` shows it."""

from __future__ import annotations

from typing import Literal

import msgspec

from afo_client.hadoop import health
from afo_client.hadoop.cluster import Cluster
from afo_client.hadoop.cluster_layout import daemons
from afo_client.hadoop.health import HdfsHealth, NodeHealth


class DaemonStatus(msgspec.Struct, frozen=True):
    """One process. `pid` is None where it does not run."""

    name: str
    pid: int | None
    addresses: list[str]
    web: str
    log: str


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to know. `hdfs` is None and `nodes` empty where nobody answers."""

    api: str = "afo/v1"
    state: Literal["running", "partial", "stopped"]
    directory: str
    conf_dir: str
    bin_dir: str
    daemons: list[DaemonStatus]
    hdfs: HdfsHealth | None
    nodes: list[NodeHealth]


def read_status(cluster: Cluster) -> ClusterStatus:
    """Raises NotFound where no cluster was ever started."""
    spec = cluster.known_spec()
    alive = cluster.running()
    found = [
        DaemonStatus(
            name=daemon.name,
            pid=alive[daemon.name].pid if daemon.name in alive else None,
            addresses=[f"{host}:{port}" for host, port in daemon.addresses],
            web=daemon.web,
            log=str(daemon.log),
        )
        for daemon in daemons(cluster.directory, spec)
    ]
    complete = all(status.pid for status in found)
    return ClusterStatus(
        state="running" if complete else "partial" if alive else "stopped",
        directory=str(cluster.directory),
        conf_dir=str(cluster.conf_dir),
        bin_dir=str(cluster.bin_dir),
        daemons=found,
        hdfs=health.hdfs(spec) if "namenode" in alive else None,
        nodes=(health.nodes(spec) or []) if "resourcemanager" in alive else [],
    )

"""A real Hadoop of pairs: two NameNodes with a JournalNode, two ResourceManagers, ZooKeeper, fail-over by itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hdfs_native
import pytest

from afo.hadoop.conf import read_properties
from afo_client.hadoop import cluster_ports, processes
from afo_client.hadoop.jars import java_home, resolve_jars, templates_dir
from afo_client.hadoop.launchers import write_launchers
from afo_client.hadoop.site import write_site

#: The name service; `hdfs://pair` is what everybody is told.
NAME = "pair"
URL = f"hdfs://{NAME}"
#: A mount table whose `/people` is that `/user`.
TABLE = "warehouse"
_HDFS, _YARN = "org.apache.hadoop.hdfs", "org.apache.hadoop.yarn.server"
_START_S = 180.0
_HOST = "127.0.0.1"
_PORTS = (
    "zookeeper", "journal_rpc", "journal_web", "datanode_data", "datanode_web", "datanode_rpc",
    "nn1_rpc", "nn1_web", "nn1_zkfc", "nn2_rpc", "nn2_web", "nn2_zkfc",
    *(f"rm{n}_{kind}" for n in (1, 2) for kind in ("client", "scheduler", "tracker", "admin", "web")),
    "node_rpc", "node_localizer", "node_web", "node_collector",
)  # fmt: skip


@dataclass(frozen=True)
class _Program:
    """A daemon; `own` are settings that it alone has."""

    main_class: str
    arguments: tuple[str, ...] = ()
    own: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


class PairedCluster:
    """Lives in `directory`. Daemons: zookeeper, journalnode, nn1, nn2, zkfc1, zkfc2, datanode, rm1, rm2, node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        base = cluster_ports.find_base(len(_PORTS))
        self._ports = {name: base + number for number, name in enumerate(_PORTS)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._java, self._jars = java_home(), resolve_jars()

    @property
    def conf_dir(self) -> Path:
        """For $HADOOP_CONF_DIR of clients."""
        return self.directory / "conf"

    @property
    def bin_dir(self) -> Path:
        """Holds `yarn` and `hdfs`, for $PATH."""
        return self.directory / "bin"

    def start(self) -> None:
        """All of it, formatted; returns when both pairs have an active one."""
        self._configure("conf", {})
        write_launchers(self.directory, self._jars, self._java)
        for name in ("zookeeper", "journalnode"):
            self.start_daemon(name)
        _await(lambda: not cluster_ports.is_free(_HOST, self._ports["journal_rpc"]), "the JournalNode")
        _await(lambda: not cluster_ports.is_free(_HOST, self._ports["zookeeper"]), "ZooKeeper")
        self._run_once("nn1", "-format", "-nonInteractive")
        self._run_once("zkfc1", "-formatZK", "-force", "-nonInteractive")
        self.start_daemon("nn1")
        _await(lambda: self.state("nn1") != "", "the first NameNode")
        self._run_once("nn2", "-bootstrapStandby", "-nonInteractive")
        for name in ("nn2", "zkfc1", "zkfc2", "datanode", "rm1", "rm2", "node"):
            self.start_daemon(name)
        _await(lambda: bool(self.active("nn") and self.active("rm") and self._usable()), "an active one of each pair")

    def stop(self) -> None:
        """Ends everything."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        processes.kill_containers(self.directory)

    def start_daemon(self, name: str) -> None:
        """One of them, without waiting."""
        program = self._programs()[name]
        conf = self._configure(f"{name}-conf", dict(program.own))
        log = self.directory / "logs" / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        options = (f"-Dafo.log.file={log}", "-Dhadoop.root.logger=INFO,file", *program.options)
        command = [*self._command(conf, program, *options), *program.arguments]
        with log.with_suffix(".out").open("ab") as output:
            self._running[name] = subprocess.Popen(
                command, env=processes.daemon_environment(self._java, conf), stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """As a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.wait(10)

    def active(self, kind: str) -> str:
        """Which of a pair, `nn` or `rm`, is active; '' while none is."""
        return next((name for name in (f"{kind}1", f"{kind}2") if self.state(name) == "active"), "")

    def state(self, name: str) -> str:
        """`active`, `standby`, or '' for one that does not answer."""
        web = self._web(name)
        if name.startswith("nn"):
            beans = _get(f"{web}/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus").get("beans", [])
            return str(beans[0]["State"]) if beans else ""
        return str(_get(f"{web}/ws/v1/cluster/info").get("clusterInfo", {}).get("haState", "")).lower()

    def fail_over(self, kind: str) -> float:
        """Kills the active one of a pair; it comes back as standby, and all of the cluster knows the other one.

        Returns the seconds until that was active.
        """
        died, begun = self.active(kind), time.monotonic()
        self.kill(died)
        _await(lambda: self.active(kind) not in ("", died), f"the fail-over of {died}")
        seconds = time.monotonic() - begun
        self.start_daemon(died)
        _await(lambda: self.state(died) == "standby", f"{died} as standby")
        _await(self._usable, "its DataNode and NodeManager")
        return seconds

    def _usable(self) -> bool:
        """HDFS takes files and YARN has a node."""
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        beans = _get(f"{self._web(self.active('nn'))}/{query}").get("beans", [])
        nodes = _get(f"{self._web(self.active('rm'))}/ws/v1/cluster/nodes").get("nodes") or {}
        takes_files = bool(beans) and beans[0]["FSState"] == "Operational" and beans[0]["NumLiveDataNodes"] > 0
        return takes_files and any(node["state"] == "RUNNING" for node in nodes.get("node", []))

    def _web(self, name: str) -> str:
        return f"http://{_HOST}:{self._ports[f'{name}_web']}"

    def _run_once(self, name: str, *arguments: str) -> None:
        program = self._programs()[name]
        conf = self._configure(f"{name}-conf", dict(program.own))
        done = subprocess.run(
            [*self._command(conf, program), *arguments], env=processes.daemon_environment(self._java, conf),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name} {arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _command(self, conf: Path, program: _Program, *options: str) -> list[str]:
        return processes.java_command(self._java, f"{conf}:{self._jars}/*", program.main_class, *options)

    def _programs(self) -> dict[str, _Program]:
        at = self.directory
        name_nodes = {
            f"nn{n}": _Program(
                f"{_HDFS}.server.namenode.NameNode",
                own=(("dfs.ha.namenode.id", f"nn{n}"), ("dfs.namenode.name.dir", f"file://{at}/nn{n}")),
            )
            for n in (1, 2)
        }
        controllers = {
            f"zkfc{n}": _Program(f"{_HDFS}.tools.DFSZKFailoverController", own=(("dfs.ha.namenode.id", f"nn{n}"),))
            for n in (1, 2)
        }
        managers = {
            f"rm{n}": _Program(
                f"{_YARN}.resourcemanager.ResourceManager", own=(("yarn.resourcemanager.ha.id", f"rm{n}"),)
            )
            for n in (1, 2)
        }
        return {
            "zookeeper": _Program(
                "org.apache.zookeeper.server.ZooKeeperServerMain", (str(self._ports["zookeeper"]), f"{at}/zookeeper"),
                options=("-Dzookeeper.admin.enableServer=false",),
            ),
            "journalnode": _Program(f"{_HDFS}.qjournal.server.JournalNode"),
            "datanode": _Program(f"{_HDFS}.server.datanode.DataNode"),
            "node": _Program(f"{_YARN}.nodemanager.NodeManager"),
            **name_nodes, **controllers, **managers,
        }  # fmt: skip

    def _configure(self, folder: str, own: dict[str, str]) -> Path:
        conf = self.directory / folder
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "log4j.properties").write_bytes((templates_dir() / "log4j.properties").read_bytes())
        for prefix, settings in (("core", self._core()), ("hdfs", self._hdfs()), ("yarn", self._yarn())):
            write_site(conf / f"{prefix}-site.xml", {**settings, **own})
        write_site(conf / "capacity-scheduler.xml", read_properties(templates_dir() / "capacity-scheduler.xml"))
        return conf

    def _core(self) -> dict[str, str]:
        zookeeper = f"{_HOST}:{self._ports['zookeeper']}"
        return {
            "fs.defaultFS": URL, "hadoop.tmp.dir": f"{self.directory}/tmp",
            "ha.zookeeper.quorum": zookeeper, "hadoop.zk.address": zookeeper,
            "ha.zookeeper.session-timeout.ms": "4000",
            f"fs.viewfs.mounttable.{TABLE}.link./people": f"{URL}/user",
            f"fs.viewfs.mounttable.{TABLE}.linkFallback": f"{URL}/",
        }  # fmt: skip

    def _hdfs(self) -> dict[str, str]:
        at, port = self.directory, self._ports
        pair = {
            f"dfs.namenode.{kind}-address.{NAME}.nn{n}": f"{_HOST}:{port[f'nn{n}_{key}']}"
            for n in (1, 2)
            for kind, key in (("rpc", "rpc"), ("http", "web"))
        }
        return {
            "dfs.replication": "1",
            "dfs.nameservices": NAME,
            f"dfs.ha.namenodes.{NAME}": "nn1,nn2",
            **pair,
            **{f"dfs.ha.zkfc.port.{NAME}.nn{n}": str(port[f"nn{n}_zkfc"]) for n in (1, 2)},
            f"dfs.client.failover.proxy.provider.{NAME}":
                f"{_HDFS}.server.namenode.ha.ConfiguredFailoverProxyProvider",
            "dfs.namenode.shared.edits.dir": f"qjournal://{_HOST}:{port['journal_rpc']}/{NAME}",
            "dfs.journalnode.rpc-address": f"{_HOST}:{port['journal_rpc']}",
            "dfs.journalnode.http-address": f"{_HOST}:{port['journal_web']}",
            "dfs.journalnode.edits.dir": f"{at}/journal",
            "dfs.ha.automatic-failover.enabled": "true",
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.datanode.data.dir": f"file://{at}/datanode",
            "dfs.datanode.address": f"{_HOST}:{port['datanode_data']}",
            "dfs.datanode.http.address": f"{_HOST}:{port['datanode_web']}",
            "dfs.datanode.ipc.address": f"{_HOST}:{port['datanode_rpc']}",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.blockreport.initialDelay": "0",
            "dfs.heartbeat.interval": "1",
        }  # fmt: skip

    def _yarn(self) -> dict[str, str]:
        at, port = self.directory, self._ports
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        kinds = (("address", "client"), ("scheduler.address", "scheduler"), ("admin.address", "admin"),
                 ("resource-tracker.address", "tracker"), ("webapp.address", "web"))  # fmt: skip
        pair = {f"{manager}.{kind}.rm{n}": f"{_HOST}:{port[f'rm{n}_{key}']}" for n in (1, 2) for kind, key in kinds}
        stock = read_properties(templates_dir() / "nodemanager-site.xml")
        checks = {name: value for name, value in stock.items() if "$" not in value}
        return {
            f"{manager}.ha.enabled": "true",
            f"{manager}.ha.rm-ids": "rm1,rm2",
            f"{manager}.cluster-id": NAME,
            **{f"{manager}.hostname.rm{n}": _HOST for n in (1, 2)},
            **pair,
            f"{manager}.recovery.enabled": "true",
            f"{manager}.store.class": f"{_YARN}.resourcemanager.recovery.ZKRMStateStore",
            f"{manager}.am.max-attempts": "4",
            f"{manager}.nodemanagers.heartbeat-interval-ms": "250",
            # Stock pauses are up to 45 s.
            "yarn.client.failover-sleep-base-ms": "500",
            "yarn.client.failover-sleep-max-ms": "4000",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": "6144",
            "yarn.application.classpath": f"{at}/conf,{self._jars}/*",
            **checks,
            f"{node}.hostname": _HOST,
            f"{node}.address": f"{_HOST}:{port['node_rpc']}",
            f"{node}.localizer.address": f"{_HOST}:{port['node_localizer']}",
            f"{node}.webapp.address": f"{_HOST}:{port['node_web']}",
            f"{node}.collector-service.address": f"{_HOST}:{port['node_collector']}",
            f"{node}.local-dirs": f"{at}/node/local",
            f"{node}.log-dirs": f"{at}/node/logs",
            f"{node}.resource.memory-mb": "6144",
            f"{node}.resource.cpu-vcores": "16",
        }


@contextmanager
def paired(directory: Path) -> Iterator[PairedCluster]:
    """Starts it; this process knows it by its environment meanwhile."""
    cluster = PairedCluster(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
        patch.setenv("PATH", str(cluster.bin_dir), prepend=os.pathsep)
        try:
            cluster.start()
            hdfs_native.Client(URL).mkdirs("/tmp", 0o1777, True)
            yield cluster
        finally:
            cluster.stop()


def _get(url: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _await(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _START_S
    while not true():
        assert time.monotonic() < end, f"{what} does not come"
        time.sleep(0.3)

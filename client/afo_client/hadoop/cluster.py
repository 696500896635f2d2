"""A cluster in a directory: started, looked at, stopped, and for tests taken apart daemon by daemon."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from afo import storage
from afo.errors import ClusterUnreachable, NotFound, UsageError
from afo.formats import json_file
from afo.site.config import user_name
from afo.storage.private_files import make_private
from afo_client.hadoop import cluster_ports, health, processes
from afo_client.hadoop.cluster_layout import LOOPBACK, ClusterSpec, Daemon, daemons
from afo_client.hadoop.jars import java_home, resolve_jars
from afo_client.hadoop.launchers import write_launchers
from afo_client.hadoop.site import write_configuration

START_SECONDS = 180.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.3
_LOG_LINES = 20


class Cluster:
    """The cluster that lives, or will live, in `directory`. Holds no state of its own: the directory and the process
    table are the state, so any number of these may look at the same cluster."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.expanduser().resolve()

    @property
    def spec(self) -> ClusterSpec | None:
        """What was started here last; None in a fresh directory."""
        file = self.directory / "cluster.json"
        return json_file.decode(file.read_bytes(), ClusterSpec, str(file)) if file.exists() else None

    def known_spec(self) -> ClusterSpec:
        """The same, or NotFound."""
        spec = self.spec
        if spec is None:
            raise NotFound(f"there is no cluster in {self.directory}; make one with `afo cluster start`, or give --dir")
        return spec

    @property
    def conf_dir(self) -> Path:
        """The client configuration, for $HADOOP_CONF_DIR."""
        return self.directory / "conf"

    @property
    def bin_dir(self) -> Path:
        """Holds `yarn` and `hdfs`, for $PATH."""
        return self.directory / "bin"

    @property
    def hdfs_uri(self) -> str:
        """`hdfs://host:port` of the NameNode."""
        return f"hdfs://{LOOPBACK}:{self.known_spec().master_ports()['namenode_rpc']}"

    def daemon(self, name: str) -> Daemon:
        """Raises NotFound, naming those that there are."""
        found = {daemon.name: daemon for daemon in daemons(self.directory, self.known_spec())}
        if name not in found:
            raise NotFound(f"the cluster in {self.directory} has no daemon {name!r}; it has {', '.join(found)}")
        return found[name]

    def running(self) -> dict[str, psutil.Process]:
        """The living daemons, by name."""
        return processes.running(self.directory)

    def start(self, spec: ClusterSpec) -> None:
        """Starts what does not run yet, and returns when all of it can be used.

        HDFS keeps what it held. Raises UsageError (Java or Maven missing, port taken, another spec runs here),
        ClusterUnreachable with the end of the log when a daemon does not come up; those started are then stopped.
        """
        make_private(self.directory)
        with self._hold_lock():
            spec = self._choose_ports(spec)
            java, jars = java_home(), resolve_jars(spec.hadoop)
            write_configuration(self.directory, spec, jars)
            write_launchers(self.directory, jars, java)
            json_file.write_private(self.directory / "cluster.json", spec)
            self._start_missing(spec, jars, java)
            self._make_home()

    def stop(self) -> None:
        """Ends every daemon and container. HDFS stays on disk; applications are forgotten."""
        if not self.directory.is_dir():
            return
        with self._hold_lock():
            self._stop_all()
            shutil.rmtree(self.directory / "resourcemanager", ignore_errors=True)

    def kill_daemon(self, name: str) -> None:
        """Kills one daemon as a crash would (SIGKILL). Its containers stay."""
        process = self.running().get(self.daemon(name).name)
        if process is None:
            raise NotFound(f"{name} does not run in {self.directory}")
        processes.kill([process])

    def start_daemon(self, name: str) -> None:
        """Starts one daemon again and waits until it can be used."""
        spec, daemon = self.known_spec(), self.daemon(name)
        with self._hold_lock():
            self._start([daemon], [daemon], spec, resolve_jars(spec.hadoop), java_home())

    def _choose_ports(self, spec: ClusterSpec) -> ClusterSpec:
        """The spec with ports: those given, else those of last time, else free ones."""
        last = self.spec
        if not spec.port_base:
            base = last.port_base if last else cluster_ports.find_base(spec.port_count)
            spec = msgspec.structs.replace(spec, port_base=base)
        if last is not None and last != spec and self.running():
            raise UsageError(
                f"a cluster with other options runs in {self.directory}: {last}; stop it first, or give another --dir"
            )
        return spec

    def _start_missing(self, spec: ClusterSpec, jars: Path, java: Path) -> None:
        alive = self.running()
        all_of_them = daemons(self.directory, spec)
        if not (self.directory / "namenode" / "current" / "VERSION").exists():
            self._format(jars, java)
        self._start([daemon for daemon in all_of_them if daemon.name not in alive], all_of_them, spec, jars, java)

    def _format(self, jars: Path, java: Path) -> None:
        main_class = "org.apache.hadoop.hdfs.server.namenode.NameNode"
        command = processes.java_command(java, f"{self.conf_dir}:{jars}/*", main_class)
        environment = processes.daemon_environment(java, self.conf_dir)
        # Half a format, and blocks of another file system: a DataNode refuses to serve both.
        for leftover in ("namenode", "datanode"):
            shutil.rmtree(self.directory / leftover, ignore_errors=True)
        done = subprocess.run(
            [*command, "-format", "-nonInteractive"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=START_SECONDS,
        )
        if done.returncode:
            raise ClusterUnreachable(f"the NameNode could not be formatted:\n{_tail(done.stdout + done.stderr)}")

    def _start(self, starting: list[Daemon], awaited: list[Daemon], spec: ClusterSpec, jars: Path, java: Path) -> None:
        for daemon in starting:
            if taken := cluster_ports.find_taken(daemon.addresses):
                raise UsageError(f"{daemon.name} cannot listen on {', '.join(taken)}: in use; give another --port-base")
        try:
            for daemon in starting:
                processes.spawn(self.directory, daemon, jars, java)
            self._wait_until_serving(awaited, spec)
        except BaseException:
            alive = self.running()
            processes.end([alive[daemon.name] for daemon in starting if daemon.name in alive], _STOP_SECONDS)
            raise

    def _wait_until_serving(self, awaited: list[Daemon], spec: ClusterSpec) -> None:
        end = time.monotonic() + START_SECONDS
        while waiting := health.not_serving(awaited, spec):
            alive = self.running()
            for daemon in awaited:
                if daemon.name not in alive:
                    raise ClusterUnreachable(f"{daemon.name} ended while starting. The end of\n{_log(daemon)}")
            if time.monotonic() > end:
                slow = waiting[0]
                raise ClusterUnreachable(
                    f"{slow.name} does not serve after {START_SECONDS:g} s. The end of\n{_log(slow)}"
                )
            time.sleep(_POLL_SECONDS)

    def _make_home(self) -> None:
        storage.make_dirs(f"{self.hdfs_uri}/tmp", mode=0o1777)
        storage.make_dirs(f"{self.hdfs_uri}/user/{user_name()}")

    def _stop_all(self) -> None:
        alive = self.running()
        # NodeManagers first: they end their containers in good order while the others still answer.
        nodes = [process for name, process in alive.items() if name.startswith("nodemanager-")]
        processes.end(nodes, _STOP_SECONDS)
        processes.kill_containers(self.directory)
        processes.end([process for process in alive.values() if process not in nodes], _STOP_SECONDS)
        left = [f"{name} ({process.pid})" for name, process in self.running().items()]
        left += [f"container process {process.pid}" for process in processes.containers(self.directory)]
        if left:
            raise ClusterUnreachable(f"could not end {', '.join(left)} of the cluster in {self.directory}")

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """One start or stop at a time; the lock goes with the process that holds it."""
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _log(daemon: Daemon) -> str:
    """The end of what a daemon said: of its log, and of its output when it died before it had one."""
    files = [file for file in (daemon.log, daemon.log.with_suffix(".out")) if file.exists()]
    return "\n".join(f"{file}:\n{_tail(file.read_text(errors='replace'))}" for file in files)


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LOG_LINES:])

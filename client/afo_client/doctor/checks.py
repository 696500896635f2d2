"""The checks of `afo doctor`: each is a function that says how it stands and what to do."""

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from afo import __version__, storage
from afo.errors import ClusterUnreachable, Unsupported
from afo.hadoop import conf
from afo.ops import library
from afo.psplus import server_library
from afo.site.config import Config, user_name
from afo.site.user_state import UserState
from afo.storage.url import LOCAL, parse
from afo.yarn import resource_manager
from afo.yarn.resource_manager import ResourceManager
from afo_client.doctor import identity
from afo_client.doctor.check_result import Finding, run_check
from afo_client.doctor.kerberos_checks import kerberos_checks
from afo_client.doctor.versions import versions
from afo_client.submission.inspection import check_writable
from afo_client.terminal.console import size_text

#: Free disk below which a job's scratch space is at risk, and clock difference that makes logs hard to compare.
LOW_DISK_BYTES = 5 << 30
CLOCK_S = 5.0


def local_checks(config: Config) -> Iterator[Finding]:
    """This machine."""
    yield _python()
    yield from _versions()
    yield _java()
    yield _cpu()
    yield _operations()
    yield _parameter_server()
    yield _jobs_root(config)
    yield _state(config)
    yield from _disks(config)
    yield _security()


def cluster_checks() -> Iterator[Finding]:
    """The cluster of $HADOOP_CONF_DIR; ends early where nothing further can be asked."""
    directory = conf.conf_dir()
    if directory is None or not (directory / "core-site.xml").is_file():
        advice = "set HADOOP_CONF_DIR to a directory with core-site.xml and yarn-site.xml, or `afo cluster start`"
        yield Finding("Hadoop configuration", "fail", f"none ({directory or 'HADOOP_CONF_DIR is not set'})", advice, 6)
        return
    yield Finding("Hadoop configuration", "ok", str(directory))
    yield from identity.proxy_user()
    if conf.demands_kerberos():
        kerberos = list(kerberos_checks())
        yield from kerberos
        if kerberos[0].level == "fail":
            return
    try:
        manager = resource_manager.from_configuration(user_name())
    except ClusterUnreachable as error:
        yield Finding("ResourceManager", "fail", str(error), "complete yarn-site.xml", error.exit_code)
        return
    yield run_check("HDFS", _hdfs, "check that the NameNode runs and that this machine reaches it")
    yield run_check("clock", _clock, "synchronise the clocks of this machine and the NameNode")
    yield run_check("ResourceManager", lambda: _nodes(manager), "check that YARN runs and that this machine reaches it")
    yield run_check("queues", lambda: _queues(manager), "ask the administrator for a queue that is RUNNING")


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} ({sys.executable}), afo {__version__}")


def _versions() -> Iterator[Finding]:
    found = versions()
    tensorflow = found.get("tensorflow") or found.get("tensorflow-cpu")
    if tensorflow is None:
        yield Finding("TensorFlow", "warn", "not installed", "pip install 'afo[train]' where tasks run")
    elif tensorflow.startswith("2.21."):
        yield Finding("TensorFlow", "ok", tensorflow)
    else:
        yield Finding("TensorFlow", "warn", tensorflow, "afo is tested with 2.21: pip install 'afo[train]'")
    for name in ("protobuf", "skein", "grpcio"):
        yield (
            Finding(name, "ok", found[name])
            if name in found
            else Finding(name, "fail", "not installed", "pip install afo")
        )


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return Finding("Java", "warn", "not found", "install a JRE 11 or 17 to submit to YARN; local jobs need none")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", "warn", f"{java}: {error}", "repair the Java installation or set JAVA_HOME")
    if done.returncode != 0:
        return Finding("Java", "warn", f"{java}: exit code {done.returncode}", "repair the Java installation")
    said = (done.stderr or done.stdout).splitlines() or [""]
    # Before its version it may name options of the environment.
    return Finding("Java", "ok", f"{next((line for line in said if ' version ' in line), said[0])} ({java})")


def _cpu() -> Finding:
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return Finding("CPU", "warn", platform.machine(), "flags are unknown on this system")
    flags = next((line.split() for line in words.splitlines() if line.startswith("flags")), [])
    text = f"{os.cpu_count()} cores, {size_text(psutil.virtual_memory().total)} memory"
    missing = sorted({"avx2", "fma"} - set(flags))
    if missing:
        return Finding("CPU", "warn", f"{text}, without {', '.join(missing)}", "training is slow on such a processor")
    return Finding("CPU", "ok", f"{text}, avx2, fma{', avx512f' if 'avx512f' in flags else ''}")


def _operations() -> Finding:
    try:
        return Finding("native operations", "ok", library.available().name)
    except Unsupported as error:
        return Finding("native operations", "warn", str(error), "embedding variables need them; other jobs do not")


def _parameter_server() -> Finding:
    try:
        return Finding("parameter server", "ok", server_library.versions())
    except Unsupported as error:
        return Finding("parameter server", "warn", str(error), "jobs with `engine: psplus` need it; other jobs do not")


def _disks(config: Config) -> Iterator[Finding]:
    """Each disk that a command or a job of this machine writes to."""
    root = parse(config.jobs_root("local"))
    wanted = (Path(root.path) if root.scheme == LOCAL else Path.cwd(), config.state_dir, Path.cwd())
    there = [next(folder for folder in (path, *path.parents) if folder.is_dir()) for path in wanted]
    for directory in {path.stat().st_dev: path for path in reversed(there)}.values():
        free = shutil.disk_usage(directory).free
        text = f"{size_text(free)} free at {directory}"
        yield Finding("disk", *(("ok", text) if free >= LOW_DISK_BYTES else ("warn", text, "free some space")))


def _jobs_root(config: Config) -> Finding:
    def check() -> Finding:
        root = config.jobs_root(config.runtime.value)
        UserState(config.state_dir).make_above(root)
        check_writable(root)
        return Finding("jobs", "ok", f"{root} is writable")

    return run_check("jobs", check, "set AFO_JOBS_ROOT, or jobs_root in afo-site.yaml, to a directory you can write")


def _state(config: Config) -> Finding:
    """Whether others can enter where this user's secrets lie."""
    found = UserState(config.state_dir).open_to_others()
    if not found:
        return Finding("secrets", "ok", f"{config.state_dir} is this user's alone")
    text = ", ".join(f"{path} (mode {mode:04o})" for path, mode in list(found.items())[:5])
    more = "" if len(found) <= 5 else f" and {len(found) - 5} more"
    return Finding("secrets", "warn", f"open to others: {text}{more}", f"chmod -R go= {config.state_dir}")


def _security() -> Finding:
    return Finding(
        "security", "warn",
        "while a job runs, a stock TensorFlow server executes any graph that reaches its port, as the job's user",
        "keep people you do not trust off these machines, and networks by a firewall; docs/security.md has its rules",
    )  # fmt: skip


def _hdfs() -> Finding:
    root = conf.setting("fs.defaultFS") or ""
    storage.list_dir(f"{root.rstrip('/')}/")
    return Finding("HDFS", "ok", f"{root} answers")


def _clock() -> Finding:
    """The NameNode's clock stamps the files that it makes."""
    root = (conf.setting("fs.defaultFS") or "").rstrip("/")
    probe = f"{root}/tmp/.afo-clock-{os.getpid()}-{time.time_ns()}"
    storage.write_bytes(probe, b"")
    try:
        difference = storage.info(probe).modified - time.time()
    finally:
        storage.delete(probe, missing_ok=True)
    text = f"the NameNode's clock differs by {abs(difference):.1f} s"
    return (
        Finding("clock", "ok", text)
        if abs(difference) <= CLOCK_S
        else Finding("clock", "warn", text, "synchronise the clocks (NTP)")
    )


def _nodes(manager: ResourceManager) -> Finding:
    nodes = manager.nodes()
    if not nodes:
        return Finding("ResourceManager", "fail", "it answers, but no NodeManager runs", "start a NodeManager", 6)
    memory, vcores = max(node.memory for node in nodes), max(node.vcores for node in nodes)
    text = f"{len(nodes)} nodes, the largest with {memory} MiB and {vcores} vcores"
    return Finding("ResourceManager", "ok", text)


def _queues(manager: ResourceManager) -> Finding:
    running = [queue.name for queue in manager.queues() if queue.state == "RUNNING"]
    if not running:
        return Finding("queues", "fail", "no queue is RUNNING", "ask the administrator for one")
    return Finding("queues", "ok", ", ".join(running[:20]))

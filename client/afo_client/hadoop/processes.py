"""Daemons as processes: started detached, recognised by their own command line, ended for certain.

What runs is read from the process table and not from files of process ids: every daemon carries its cluster and its
name as a Java property, so neither a crash between start and note nor a reused process id can mislead.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from afo_client.hadoop.cluster_layout import Daemon

_HEAP = "-Xmx256m"
_OPENED = ("java.lang", "java.lang.reflect", "java.util", "java.nio", "java.net")
#: Java 17 hides packages that Hadoop 3.4 reaches into; the cheap compiler and collector start in half the time.
JAVA_OPTIONS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)
#: What a daemon and so every container inherits; nothing else of the starting shell leaks into them.
_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HADOOP_USER_NAME", "JAVA_TOOL_OPTIONS",
    "KRB5_CONFIG",
)  # fmt: skip


def _cluster_mark(directory: Path) -> str:
    return f"-Dafo.cluster={directory}"


def _name_mark(name: str) -> str:
    return f"-Dafo.daemon={name}"


def java_command(java_home: Path, class_path: str, main_class: str, *options: str) -> list[str]:
    """A Java program of Hadoop's as argument list."""
    return [str(java_home / "bin" / "java"), *JAVA_OPTIONS, _HEAP, *options, "-cp", class_path, main_class]


def daemon_environment(java_home: Path, conf_dir: Path) -> dict[str, str]:
    """What daemons run with. MALLOC_ARENA_MAX is what Hadoop's own start scripts set, and NodeManagers pass it on."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, "JAVA_HOME": str(java_home), "HADOOP_CONF_DIR": str(conf_dir), "MALLOC_ARENA_MAX": "4"}


def spawn(directory: Path, daemon: Daemon, jars: Path, java_home: Path) -> int:
    """Starts a daemon that outlives this process and its terminal; returns its process id."""
    daemon.log.parent.mkdir(parents=True, exist_ok=True)
    marks = (_cluster_mark(directory), _name_mark(daemon.name))
    logging = (f"-Dafo.log.file={daemon.log}", "-Dhadoop.root.logger=INFO,file")
    command = java_command(java_home, f"{daemon.conf_dir}:{jars}/*", daemon.main_class, *marks, *logging)
    output = str(daemon.log.with_suffix(".out"))
    return os.posix_spawn(
        command[0],
        command,
        daemon_environment(java_home, directory / "conf"),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
    )


def running(directory: Path) -> dict[str, psutil.Process]:
    """The living daemons of the cluster in `directory`, by name."""
    found = {}
    for process in psutil.process_iter(["cmdline", "status"]):
        arguments = process.info["cmdline"] or []
        if _cluster_mark(directory) in arguments and process.info["status"] != psutil.STATUS_ZOMBIE:
            names = [
                argument.removeprefix(_name_mark("")) for argument in arguments if argument.startswith(_name_mark(""))
            ]
            found.update(dict.fromkeys(names, process))
    return found


def containers(directory: Path) -> list[psutil.Process]:
    """Living processes of YARN containers whose NodeManager belongs, or belonged, to the cluster in `directory`."""
    return [process for process in psutil.process_iter() if _is_container(process, str(directory))]


def _is_container(process: psutil.Process, directory: str) -> bool:
    try:
        environment = process.environ()
        alive = process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    return alive and "CONTAINER_ID" in environment and environment.get("LOCAL_DIRS", "").startswith(f"{directory}/")


def end(processes: list[psutil.Process], patience: float) -> None:
    """Asks processes to end, kills those still there after `patience` seconds, and returns when all are gone."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    _, stubborn = psutil.wait_procs(processes, timeout=patience)
    kill(stubborn)


def kill(processes: list[psutil.Process]) -> None:
    """Kills processes at once. Returns when they are gone."""
    for process in processes:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def kill_containers(directory: Path, patience: float = 10.0) -> None:
    """Kills what containers left behind, including what they start meanwhile."""
    end_at = time.monotonic() + patience
    while (left := containers(directory)) and time.monotonic() < end_at:
        kill(left)


def _signal(process: psutil.Process, number: int) -> None:
    # psutil compares the start time first, so a reused process id is never hit.
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)

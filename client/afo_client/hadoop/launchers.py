"""The `yarn` and `hdfs` commands of a cluster: a main class for each verb, on the cluster's own configuration."""

from __future__ import annotations

import shlex
from pathlib import Path

from afo_client.hadoop.processes import java_command

_CLI = "org.apache.hadoop.yarn.client.cli"
_YARN = {
    "logs": f"{_CLI}.LogsCLI",
    "application": f"{_CLI}.ApplicationCLI application",
    "app": f"{_CLI}.ApplicationCLI app",
    "applicationattempt": f"{_CLI}.ApplicationCLI applicationattempt",
    "container": f"{_CLI}.ApplicationCLI container",
    "node": f"{_CLI}.NodeCLI",
    "queue": f"{_CLI}.QueueCLI",
    "rmadmin": f"{_CLI}.RMAdminCLI",
    "version": "org.apache.hadoop.util.VersionInfo",
}
_HDFS = {
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
    "fetchdt": "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher",
    "debug": "org.apache.hadoop.hdfs.tools.DebugAdmin",
    "version": "org.apache.hadoop.util.VersionInfo",
}


def write_launchers(directory: Path, jars: Path, java_home: Path) -> None:
    """Writes `<directory>/bin/yarn` and `<directory>/bin/hdfs`."""
    (directory / "bin").mkdir(exist_ok=True)
    for name, verbs in (("yarn", _YARN), ("hdfs", _HDFS)):
        path = directory / "bin" / name
        path.write_text(_script(name, verbs, directory, jars, java_home))
        path.chmod(0o755)


def _script(name: str, verbs: dict[str, str], directory: Path, jars: Path, java_home: Path) -> str:
    # The jars stay a wildcard, which Java expands; `classpath --glob`, as skein asks it, gets the same.
    class_path = f"{directory / 'conf'}:{jars}/*"
    *java, _ = java_command(java_home, class_path, "")
    cases = "\n".join(f"  {verb}) class={shlex.quote(target)} ;;" for verb, target in verbs.items())
    return f"""#!/bin/sh
# Written by `afo cluster start`.
verb=$1
[ $# -eq 0 ] || shift
case "$verb" in
  classpath) echo {shlex.quote(class_path)}; exit ;;
{cases}
  *) echo "{name}: unknown command '$verb'; there are: classpath {" ".join(verbs)}" >&2; exit 2 ;;
esac
# $class may hold a first argument, and is split on purpose.
export HADOOP_CONF_DIR={shlex.quote(str(directory / "conf"))}
exec {shlex.join(java)} $class "$@"
"""

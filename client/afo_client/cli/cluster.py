"""`afo cluster`: a real HDFS and YARN on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import msgspec

from afo.errors import UsageError
from afo.formats.units import Duration, Memory
from afo_client.cli.options import examples
from afo_client.hadoop.cluster import Cluster
from afo_client.hadoop.cluster_layout import ClusterSpec, default_directory
from afo_client.hadoop.cluster_status import ClusterStatus, read_status
from afo_client.terminal.console import print_result, say

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_directory,
    show_default="$AFO_CLUSTER_DIR, else ~/.afo/cluster",
    help="Directory that holds everything of the cluster.",
)


@click.group(name="cluster")
def command() -> None:
    """A real HDFS and YARN on this machine, for trying out and for tests.

    Needs Java and Maven. The first start fetches Hadoop (about 90 MB); HDFS keeps its files over stop and start.
    """


@command.command(epilog=examples("afo cluster start --nodes 3 --node-memory 8g --set dfs.blocksize=1048576"))
@click.option("--nodes", type=int, help="Number of NodeManagers.  [default: 2, or as last time]")
@click.option("--node-memory", metavar="SIZE", help="Memory of each node.  [default: 6 GiB, or as last time]")
@click.option("--node-vcores", type=int, help="Virtual cores of each node.  [default: 16, or as last time]")
@click.option(
    "--node-expiry", metavar="TIME", help="Silence after which a node is lost.  [default: 20s, or as last time]"
)
@click.option("--port-base", type=int, help="First of 10 * (nodes + 1) ports.  [default: free ones, or as last time]")
@click.option("--hadoop", metavar="VERSION", help="Hadoop's version.  [default: the newest tried, or as last time]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A Hadoop property; may be repeated.")
@directory_option
def start(
    directory: Path,
    nodes: int | None,
    node_memory: str | None,
    node_vcores: int | None,
    node_expiry: str | None,
    port_base: int | None,
    hadoop: str | None,
    settings: tuple[str, ...],
) -> None:
    """Start the daemons that do not run yet."""
    cluster = Cluster(directory)
    given = {
        "nodes": nodes,
        "node_memory": None if node_memory is None else Memory.parse(node_memory),
        "node_vcores": node_vcores,
        "node_expiry": None if node_expiry is None else Duration.parse(node_expiry),
        "port_base": port_base,
        "hadoop": hadoop,
        "settings": dict(map(_setting, settings)) or None,
    }
    last = cluster.spec or ClusterSpec()
    spec = msgspec.structs.replace(last, **{name: value for name, value in given.items() if value is not None})
    say(f"starting HDFS and YARN with {spec.nodes} NodeManagers in {cluster.directory} …")
    cluster.start(spec)
    _show(read_status(cluster))
    say("\nTo use it from this shell:")
    print_result(_exports(cluster))


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@directory_option
def status(directory: Path, as_json: bool) -> None:
    """Show daemons, nodes and addresses. Exit code 6 unless every daemon runs."""
    found = read_status(Cluster(directory))
    if as_json:
        print_result(msgspec.json.encode(found).decode())
    else:
        _show(found)
    sys.exit(0 if found.state == "running" else 6)


@command.command()
@directory_option
def stop(directory: Path) -> None:
    """Stop every daemon and container. HDFS keeps its files."""
    cluster = Cluster(directory)
    cluster.known_spec()
    cluster.stop()
    say(f"stopped; {cluster.directory} keeps the files in HDFS")


@command.command(short_help="Print what a shell needs to use the cluster.")
@directory_option
def env(directory: Path) -> None:
    """Print what a shell needs to use the cluster: eval "$(afo cluster env)"."""
    cluster = Cluster(directory)
    cluster.known_spec()
    print_result(_exports(cluster))


def _exports(cluster: Cluster) -> str:
    return (
        f"export HADOOP_CONF_DIR={shlex.quote(str(cluster.conf_dir))}\n"
        f'export PATH={shlex.quote(str(cluster.bin_dir))}:"$PATH"'
    )


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError(f"--set {text!r} is not of the form NAME=VALUE, e.g. --set dfs.blocksize=1048576")
    return name, value


def _show(found: ClusterStatus) -> None:
    say(f"{found.state}  {found.directory}")
    for daemon in found.daemons:
        process = f"pid {daemon.pid}" if daemon.pid else "stopped"
        say(f"  {daemon.name:<17} {process:<12} {daemon.web}  {daemon.log}")
    if found.hdfs:
        mode = "safe mode" if found.hdfs.safe_mode else f"{found.hdfs.free / 2**30:.1f} GiB free"
        say(f"  {found.hdfs.uri}  {mode}")
    for node in found.nodes:
        free = f"{node.free_memory} MiB and {node.free_vcores} vcores free, {node.containers} containers"
        say(f"  node {node.id}  {node.state}  {free}")

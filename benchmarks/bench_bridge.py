"""The bridge to YARN at size: real containers that sleep, asked for through skein's ApplicationMaster as the AM does.

Against YARN's own distributed shell, whose ApplicationMaster asks for as many on the same cluster in the same run. The
NodeManagers lie on this machine and claim more than it has. What each daemon takes is read from the logs of the
ResourceManager and the NodeManagers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bridge_log
import msgspec
import psutil
from bridge_jvm import Master, Numbers, until
from report import MISSED, publish, result
from size import sized

from afo import __version__
from afo.formats import units
from afo.formats.units import Duration, Memory
from afo.job import Job
from afo.protocol.am_config import AmConfig
from afo.site.config import user_name
from afo.yarn.resource_manager import FINAL_STATES, from_configuration
from afo.yarn.submission import application_spec
from afo_client.hadoop import Cluster, ClusterSpec
from afo_client.hadoop.jars import java_home
from afo_client.hadoop.processes import containers, java_command
from afo_client.runtimes.yarn import skein_driver
from afo_client.runtimes.yarn.preflight import check
from afo_client.runtimes.yarn.staging import cache_url, stage
from afo_client.runtimes.yarn.yarn_jobs import make_plan, private_files

PROBE = Path(__file__).parent / "bridge_probe.py"
#: The release of Hadoop that `afo cluster` runs has no such artifact in Maven's central repository.
SHELL_JAR = "org.apache.hadoop:hadoop-yarn-applications-distributedshell:3.4.2"
SHELL = "org.apache.hadoop.yarn.applications.distributedshell"
LOGGING = "-Dhadoop.root.logger=INFO,console"
SKEIN_MASTER, SHELL_MASTER = "com.anaconda.skein.ApplicationMaster", f"{SHELL}.ApplicationMaster"
SLEEPER = 'echo "$EPOCHREALTIME $$ $CONTAINER_ID" > "{directory}/$CONTAINER_ID.up"\nexec sleep 987\n'
NODES, NODE_MEMORY, NODE_VCORES = sized(4, 1), 512 * 1024, 1000
#: Nothing but starting and ending is to be measured: no watch over memory, no logs to HDFS.
SETTINGS = {
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.container-monitor.enabled": "false",
    "yarn.log-aggregation-enable": "false",
    # 4 nodes with 4 heartbeats a second are granted as much as 256 nodes with one, which is stock.
    "yarn.scheduler.capacity.per-node-heartbeat.maximum-offswitch-assignments": "16",
}
#: skein's ApplicationMaster against the distributed shell's, until the last process runs. Of the largest size alone: in
#: small ones the wait for skein's idle heartbeat, up to 5 s, and cold daemons weigh more than the work.
AT_LEAST = 0.8


def job() -> Job:
    """Containers as small as YARN gives them."""
    data = {
        "name": "bridge",
        "roles": {"ps": {"memory": 128}, "worker": {"memory": 128}},
        "data": {"schema": "schema.yaml", "train": ["x"]},
        "am": {"memory": 1024, "attempts": 1},
    }
    return msgspec.convert(data, Job, dec_hook=units.parse_quantity)


def submit_skein(directory: Path, containers: int, hurt: int) -> str:
    """An application as `afo submit` makes it, with the probe as its AM and sleepers as its Children."""
    user = user_name()
    config = AmConfig(
        job=job(), user=user, afo_version=__version__, runtime="yarn", jobs_root=f"hdfs:///user/{user}/.afo/jobs",
        train_files=("x",), secret_file="", schema_file="",
    )  # fmt: skip
    plan = make_plan(config, schema="features: {}\n")
    offer = from_configuration(user).offer()
    check(plan.config.job, offer)
    staged = {file.name: file.url for file in stage(plan, cache_url(user))}
    with private_files(plan, "5e" * 32) as private:
        spec = application_spec(plan, {**private, **staged}, offer.largest.memory)
        prelude = spec["master"]["script"].rpartition("exec ")[0]
        spec["master"]["script"] = f"{prelude}exec {sys.executable} {PROBE} {directory} {containers} {hurt}\n"
        for service in spec["services"].values():
            service["script"] = service["script"].rpartition("exec ")[0] + SLEEPER.format(directory=directory)
        return skein_driver.submit(spec)


def submit_shell(directory: Path, containers: int, cluster: Cluster, jar: Path) -> str:
    """As many by the distributed shell; its client is left as soon as the application is accepted."""
    script = directory / "sleeper.sh"
    script.write_text(SLEEPER.format(directory=directory))
    class_path = subprocess.check_output([cluster.bin_dir / "yarn", "classpath"], text=True).strip()
    options = ("-jar", jar, "-shell_script", script, "-num_containers", containers, "-container_memory", 128,
               "-master_memory", 1024, "-appname", "shell", "-timeout", 900_000)  # fmt: skip
    command = [*java_command(java_home(), f"{class_path}:{jar}", f"{SHELL}.Client", LOGGING), *map(str, options)]
    with (directory / "client.log").open("w") as log:
        client = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        return str(until(lambda: bridge_log.application_in(directory / "client.log"), "the shell's application"))
    finally:
        client.kill()
        client.wait()


def processor(cluster: Cluster) -> dict[str, float]:
    """Seconds of CPU so far, of the machine and of each kind of daemon."""
    machine = psutil.cpu_times()
    used = {"machine": sum(machine) - machine.idle - machine.iowait}
    for name, process in cluster.running().items():
        kind, times = name.partition("-")[0], process.cpu_times()
        used[kind] = used.get(kind, 0.0) + times.user + times.system
    return used


def spent(before: dict[str, float], cluster: Cluster) -> dict[str, float]:
    """Seconds of CPU since `before`; the containers' own are in those of the machine."""
    return {name: now - before[name] for name, now in processor(cluster).items()}


def ended(application: str, cluster: Cluster) -> tuple[float, float]:
    """When YARN says that an application is over, and when the last process of a container is gone."""
    manager = from_configuration(user_name())
    until(lambda: manager.application(application).state in FINAL_STATES, "the application is over")
    over = time.time()
    until(lambda: not containers(cluster.directory), "all containers are gone", 1.0)
    return over, time.time()


def skein_side(directory: Path, containers: int, hurt: int, cluster: Cluster) -> Numbers:
    """One application through skein, from its submission until nothing of it is left."""
    application = submit_skein(directory, containers, hurt)
    master = Master(SKEIN_MASTER, application)
    until((directory / "ready").exists, "the probe is ready")
    begin = master.numbers()
    before = processor(cluster)
    (directory / "go").touch()
    until(lambda: _up(directory) >= containers, f"{containers} containers run, {_up(directory)} do")
    running = {**master.numbers(), "spent_s": spent(before, cluster)}
    probe = json.loads(until(lambda: _text(directory / "probe.json"), "the probe is through"))
    over, gone = ended(application, cluster)
    phases = bridge_log.phases(cluster.directory / "logs", application, probe["begun"], directory)
    return {"containers": containers, "probe": probe, "at_start": begin, "all_running": running, "phases": phases,
            "over_s": over - probe["finish"], "gone_s": gone - probe["finish"]}  # fmt: skip


def shell_side(directory: Path, containers: int, cluster: Cluster, jar: Path) -> Numbers:
    """The same by the distributed shell; it asks for its containers when it has registered."""
    application = submit_shell(directory, containers, cluster, jar)
    master, before = Master(SHELL_MASTER, application), processor(cluster)
    until(lambda: _up(directory) >= containers, f"{containers} containers run, {_up(directory)} do")
    running = {**master.numbers(), "spent_s": spent(before, cluster)}
    begun = time.time()
    from_configuration(user_name()).kill(application)
    over, gone = ended(application, cluster)
    asked = bridge_log.registered(cluster.directory / "logs", application)
    phases = bridge_log.phases(cluster.directory / "logs", application, asked, directory)
    return {"containers": containers, "all_running": running, "phases": phases,
            "over_s": over - begun, "gone_s": gone - begun}  # fmt: skip


def _up(directory: Path) -> int:
    return sum(1 for _ in directory.glob("*.up"))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def shell_jar(folder: Path) -> Path:
    """Fetched by Maven."""
    goal = ["dependency:copy", f"-Dartifact={SHELL_JAR}", f"-DoutputDirectory={folder}"]
    subprocess.run(["mvn", "--batch-mode", "--quiet", *goal], check=True, stdin=subprocess.DEVNULL)
    return next(folder.glob("*distributedshell*.jar"))


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster of nodes that claim half a terabyte each."""
    cluster = Cluster(folder / "cluster")
    try:
        cluster.start(
            ClusterSpec(
                nodes=NODES,
                node_memory=Memory(NODE_MEMORY),
                node_vcores=NODE_VCORES,
                node_expiry=Duration(600),
                settings=SETTINGS,
            )
        )
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
        os.environ["PATH"] = f"{cluster.bin_dir}:{os.environ['PATH']}"
        yield cluster
    finally:
        cluster.stop()


def measure(options: argparse.Namespace, folder: Path, cluster: Cluster) -> list[dict[str, object]]:
    """Both sides in every size, printed; the claim about the largest."""
    jar, claims = shell_jar(folder / "shell"), []
    for size in options.sizes:
        ours = skein_side(Path(tempfile.mkdtemp(dir=folder)), size, size * options.hurt // 100, cluster)
        print(json.dumps({"skein": ours}, indent=1), flush=True)
        if options.alone:
            continue
        theirs = shell_side(Path(tempfile.mkdtemp(dir=folder)), size, cluster, jar)
        print(json.dumps({"shell": theirs}, indent=1), flush=True)
        mine, other = (side["phases"]["last_s"]["up"] for side in (ours, theirs))
        print(f"{size} containers run: {mine:.1f} s through skein, {other:.1f} s by the distributed shell")
        if size == max(options.sizes):
            claims.append(result(f"{size} containers run", mine, other, "s", AT_LEAST, lower_is_better=True))
    return claims


def main() -> int:
    """0 if the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=sized([100, 300, 1000], [2]))
    parser.add_argument("--hurt", type=int, default=10, help="percent that crash, and as many that the AM ends")
    parser.add_argument("--alone", action="store_true", help="without the distributed shell, and without a claim")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="afo-bench-") as name, running_cluster(Path(name)) as cluster:
        claims = measure(options, Path(name), cluster)
    return 0 if options.alone or publish("bridge", claims) else MISSED


if __name__ == "__main__":
    sys.exit(main())

"""From `afo submit` to the first training step on real YARN, by its parts.

Against the least that it can cost: a bare skein application (from the start of the submitting process to the running
driver script), one start of TensorFlow (import, a server, a client that fetched a value from it), and 3 seconds. All
are measured in the same run, in turn. Every time begins with the start of a fresh process, imports included.
The job starts TensorFlow in five processes; what that costs a machine which runs them all is printed besides.

A training file holds one batch. Two files are read at a time, so the first acknowledged file stands for the first two
steps. A second submission must send no file that is in the cache already.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from report import MISSED, publish, result
from size import sized

from afo import storage
from afo.errors import NotFound
from afo.events import event_log
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo.site.config import user_name
from afo.yarn.resource_manager import from_configuration
from afo_client.hadoop import Cluster, ClusterSpec
from afo_client.runtimes.yarn.staging import cache_url

AFO = [sys.executable, "-m", "afo_client"]
JOB_FILE = Path(__file__).parent.parent / "conf" / "jobs" / "demo.yaml"
BATCH, FILES = 256, 48
MARGIN_S = 3.0
_DEADLINE_S = 300.0

#: Submits an application whose driver script notes the time, as early as anything can run there.
BARE = """
import sys
from afo_client.runtimes.yarn.skein_driver import submit
script = f"date +%s.%N > {sys.argv[1]}.new && mv {sys.argv[1]}.new {sys.argv[1]}"
print(submit({"name": "bare", "master": {"resources": {"memory": 768, "vcores": 1}, "script": script}}))
"""
SERVER = """
import sys, time
import tensorflow as tf
server = tf.distribute.Server(tf.train.ClusterSpec({"ps": [sys.argv[1]]}), job_name="ps", task_index=0)
print("serving", flush=True)
time.sleep(1000)
"""
CLIENT = """
import sys
import tensorflow as tf
sys.stdin.readline()
tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"ps": [sys.argv[1]]}))
with tf.device("/job:ps/task:0"):
    print(float(tf.constant(1.0) + 1.0), flush=True)
"""


def until(condition: Callable[[], object], what: str, every_s: float = 0.5) -> None:
    """Poll, not so often that it takes part in what is measured: times come from events and files."""
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_DEADLINE_S:g} s: {what}")
        time.sleep(every_s)


def bare_application(folder: Path) -> tuple[float, float]:
    """Seconds from the start of the submitting process until ACCEPTED, and from there to the running driver script."""
    note = folder / f"bare-{time.time_ns()}"
    begun = time.time()
    done = subprocess.run([sys.executable, "-c", BARE, str(note)], check=True, stdout=subprocess.PIPE, text=True)
    until(note.exists, "the driver script of a bare skein application runs")
    accepted = from_configuration().application(done.stdout.strip()).started_ms / 1000
    return accepted - begun, float(note.read_text()) - accepted


def tensorflow_start(port: int, servers: int = 1, clients: int = 1) -> float:
    """Seconds until every client has fetched a value from a server, all processes started at once."""
    begun, quiet = time.time(), {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}

    def start(program: str, number: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", program, f"127.0.0.1:{port + number}"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=quiet)

    serving = [start(SERVER, number) for number in range(servers)]
    asking = [start(CLIENT, number % servers) for number in range(clients)]
    try:
        for server in serving:
            if server.stdout is None or not server.stdout.readline():
                raise SystemExit("a TensorFlow server did not start")
        for client in asking:
            if not client.communicate(b"\n", timeout=_DEADLINE_S)[0]:
                raise SystemExit("a TensorFlow client got no value")
        return time.time() - begun
    finally:
        for process in (*serving, *asking):
            process.kill()
            process.communicate()


def first_step(data: str) -> dict[str, float]:
    """Seconds of each part of one submission; the job is killed after its first file."""
    begun = time.time()
    options = [part for each in (f"data.batch_size={BATCH}", "data.epochs=4") for part in ("--set", each)]
    command = [*AFO, "submit", str(JOB_FILE), "--detach", "--var", f"data={data}", *options]
    submit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    until(lambda: submit.poll() is not None or _runs_java(submit.pid), "skein's driver starts", 0.1)
    driver = time.time()
    job_id = submit.communicate(timeout=_DEADLINE_S)[0].strip()
    if submit.returncode:
        raise SystemExit(f"afo submit ended with {submit.returncode}")
    paths = JobPaths(f"hdfs:///user/{user_name()}/.afo/jobs", job_id)
    until(lambda: _times(paths, ev.SplitDone), "the first file is acknowledged")
    accepted = from_configuration().application(job_id).started_ms / 1000
    moments = [begun, driver, accepted] + [
        pick(_times(paths, kind))
        for kind, pick in (
            (ev.AmStarted, min), (ev.TaskRegistered, max), (ev.VariablesReady, min), (ev.SplitDone, min),
        )
    ]  # fmt: skip
    subprocess.run([*AFO, "kill", job_id], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return {name: moments[n + 1] - moments[n] for n, name in enumerate(PARTS)}


PARTS = (
    "client: start, checks, staging",
    "skein's driver until ACCEPTED",
    "ACCEPTED until the AM runs",
    "the AM until all Children registered",
    "TensorFlow starts, variables ready",
    "first two steps, acknowledged",
)


def _runs_java(pid: int) -> bool:
    try:
        return any("java" in child.name() for child in psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return False


def _times(paths: JobPaths, kind: type[ev.Event]) -> list[float]:
    try:
        return [record.time for record in event_log.read_log(paths.events) if isinstance(record.event, kind)]
    except NotFound:
        return []


def cached() -> set[tuple[str, float]]:
    """Files of the cache with the time of their last change."""
    cache = cache_url(user_name())
    folders = storage.list_dir(cache) if storage.exists(cache) else []
    return {(file.url, file.modified) for folder in folders for file in storage.list_dir(folder.url)}


def measure(rounds: int, folder: Path, port: int) -> bool:
    """Every side in turn, `rounds` times; true if the aim is kept."""
    data = "hdfs:///data/bench"
    command = [*AFO, "data", "synth", data, "--train", str(BATCH * FILES), "--train-files", str(FILES)]
    subprocess.run([*command, "--eval", "1000", "--eval-files", "1"], check=True, capture_output=True)
    first_step(data)  # fills the cache and warms the nodes, as a user's first job of the day does
    before = cached()
    ours, bare, tensorflow, crowd = [], [], [], []
    for _ in range(rounds):
        ours.append(first_step(data))
        bare.append(bare_application(folder))
        tensorflow.append(tensorflow_start(port))
        crowd.append(tensorflow_start(port, servers=2, clients=3))
    sent_again = cached() - before
    for name in PARTS:
        print(f"  {statistics.median(each[name] for each in ours):6.1f} s  {name}")
    least = statistics.median(map(sum, bare)), statistics.median(tensorflow)
    until_accepted, until_script = (statistics.median(each[n] for each in bare) for n in range(2))
    print(
        f"  bare skein application {least[0]:.1f} s: {until_accepted:.1f} s until ACCEPTED, then {until_script:.1f} s"
    )
    print(f"  one TensorFlow start {least[1]:.1f} s; as many at once as the job has, {statistics.median(crowd):.1f} s")
    print(f"  a second submission found {len(before)} files in the cache and sent {len(sent_again)} of them again")
    total = statistics.median(sum(each.values()) for each in ours)
    claim = result("submit to first step", total, sum(least) + MARGIN_S, "s", 1.0, lower_is_better=True)
    return publish("submit", [claim]) and not sent_again


def main() -> int:
    """Measure on a cluster of its own; 0 if the aim is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="afo-bench-") as name:
        folder = Path(name)
        cluster = Cluster(folder / "cluster")
        os.environ["AFO_STATE_DIR"] = str(folder / "state")
        os.environ.pop("AFO_JOBS_ROOT", None)  # jobs lie in the cluster's HDFS
        try:
            cluster.start(ClusterSpec(nodes=2))
            os.environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
            os.environ["PATH"] = f"{cluster.bin_dir}:{os.environ['PATH']}"
            spec = cluster.known_spec()
            return 0 if measure(arguments.rounds, folder, spec.port_base + spec.port_count) else MISSED
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main())

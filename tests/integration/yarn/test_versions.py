"""A job on other versions of Hadoop and Java and under both schedulers; `make test-versions` writes the table."""

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from adult import REPOSITORY
from afo import storage
from afo.events import types as ev
from afo.site.config import user_name
from afo.yarn.resource_manager import from_configuration
from afo_client.hadoop import Cluster, ClusterSpec, processes
from afo_client.hadoop.jars import resolve_jars
from click_records import SCHEMA, write_files
from java_runtimes import runtime
from live_job import LiveJob, afo
from resumable_runs import ResumableRuns, circumstances, reported

pytestmark = [pytest.mark.hadoop, pytest.mark.slow, pytest.mark.tensorflow]

REPORT = REPOSITORY / "build" / "versions" / "report.md"
_PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
SCHEDULERS = {
    "capacity": f"{_PACKAGE}.capacity.CapacityScheduler",
    "fair": f"{_PACKAGE}.fair.FairScheduler",
}
#: The FairScheduler makes the one that is asked for. By itself it takes the user's name, which for root is no leaf.
QUEUES = {"capacity": "default", "fair": "root.clicks"}
FOREVER = 100_000


@dataclass(frozen=True)
class Setup:
    """What a job is tried on."""

    hadoop: str
    java: int
    scheduler: str

    def __str__(self) -> str:
        return f"{self.hadoop}-java{self.java}-{self.scheduler}"


#: In every run of the tests, as the newest is by the other tests on Hadoop.
OLDEST = Setup("2.10.2", 11, "capacity")
OTHERS = (
    Setup("2.10.2", 11, "fair"),
    Setup("3.1.4", 11, "capacity"),
    Setup("3.1.4", 11, "fair"),
    Setup("3.3.6", 11, "capacity"),
    Setup("3.3.6", 11, "fair"),
    Setup("3.3.6", 17, "capacity"),
    Setup("3.4.1", 11, "fair"),
    Setup("3.4.1", 17, "capacity"),
    Setup("3.4.3", 11, "capacity"),
    Setup("3.4.3", 17, "capacity"),
    Setup("3.4.3", 17, "fair"),
    Setup("3.4.3", 21, "capacity"),
)
ALL = [pytest.param(OLDEST, id=str(OLDEST))]
ALL += [pytest.param(each, id=str(each), marks=pytest.mark.versions) for each in OTHERS]


@dataclass(frozen=True)
class Run:
    """One that went well; seconds until the daemons served, of the job, of a worker's absence, of `afo kill`."""

    setup: Setup
    up_s: float
    job_s: float
    back_s: float
    kill_s: float
    #: Where YARN put the job, and what was said of one that had to wait.
    queue: str
    wait: str
    seconds: float


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report at the end."""
    with reported("versions", Run, REPORT, report) as noted:
        yield noted


@pytest.mark.parametrize("setup", ALL)
def test_a_job_lives_and_dies(setup: Setup, series: ResumableRuns[Run], tmp_path: Path) -> None:
    begun = time.monotonic()
    with running(setup, tmp_path) as (cluster, up_s):
        assert said_by_manager(cluster) == (setup.hadoop, f"{setup.scheduler}Scheduler")
        lose_nothing_to_bad_requests(cluster, tmp_path, setup.scheduler)
        place = f"--set=queue={QUEUES[setup.scheduler]}"
        back_s, job_s, queue = outlives_a_worker(cluster, tmp_path, place)
        wait, kill_s = is_killed_while_it_waits(cluster, tmp_path, place)
    print(series.add(Run(setup, up_s, job_s, back_s, kill_s, queue, wait, time.monotonic() - begun)))


@contextmanager
def running(setup: Setup, folder: Path) -> Iterator[tuple[Cluster, float]]:
    """A cluster of one node, and in how many seconds it came up. This process and its children use it."""
    cluster = Cluster(folder / "hadoop")
    settings = {"yarn.resourcemanager.scheduler.class": SCHEDULERS[setup.scheduler]}
    # By the machine's own Java: one that a Python package carries does not know the machine's certificates.
    resolve_jars(setup.hadoop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(runtime(setup.java)))
        patch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
        patch.setenv("PATH", str(cluster.bin_dir), prepend=os.pathsep)
        patch.setenv("AFO_STATE_DIR", str(folder / "state"))
        patch.delenv("AFO_JOBS_ROOT", raising=False)
        try:
            begun = time.monotonic()
            cluster.start(ClusterSpec(nodes=1, hadoop=setup.hadoop, settings=settings))
            yield cluster, time.monotonic() - begun
        finally:
            cluster.stop()
    assert (cluster.running(), processes.containers(cluster.directory)) == ({}, [])


def said_by_manager(cluster: Cluster) -> tuple[str, str]:
    """Its version and its scheduler."""
    address = cluster.daemon("resourcemanager").web + "ws/v1/cluster"
    with urllib.request.urlopen(f"{address}/info") as info, urllib.request.urlopen(f"{address}/scheduler") as scheduler:
        version = json.load(info)["clusterInfo"]["resourceManagerVersion"]
        return version, json.load(scheduler)["scheduler"]["schedulerInfo"]["type"]


def job_file(cluster: Cluster, folder: Path, epochs: int, workers: int = 2) -> Path:
    """Trains on a few clicks in HDFS."""
    data, train = f"{cluster.hdfs_uri}/clicks", folder / "train"
    if not train.exists():
        write_files(train, 4, 1000)
        (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
        for file in train.iterdir():
            storage.upload(str(file), f"{data}/{file.name}")
    spec = {
        "name": "versions",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": workers, "memory": "1536 MiB"}},
        "data": {"schema": "schema.yaml", "train": [f"{data}/*"], "batch_size": 32, "epochs": epochs},
        "model": {"hidden_units": [8], "embedding": {"dim": 4}},
        "checkpoint": {"every": "5s"},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(spec))
    return file


def submitted(cluster: Cluster, file: Path, place: str) -> LiveJob:
    """On YARN; `place` is the option of its queue."""
    return LiveJob.submit(file, f"{cluster.hdfs_uri}/user/{user_name()}/.afo/jobs", "--runtime", "yarn", place)


def lose_nothing_to_bad_requests(cluster: Cluster, folder: Path, scheduler: str) -> None:
    """What cannot run is refused by the client, which knows the largest container and, but for Fair, the queues."""
    file = job_file(cluster, folder, 1)
    changes = [("roles.ps.memory=900GiB", "the largest is 6 GiB")]
    changes += [("queue=root.adz", "did you mean")] if scheduler == "capacity" else []
    for change, words in changes:
        done = afo("submit", str(file), "--runtime", "yarn", "--detach", "--set", change)
        assert (done.returncode, words in done.stderr) == (3, True), done.stderr


def outlives_a_worker(cluster: Cluster, folder: Path, place: str) -> tuple[float, float, str]:
    """A worker's container dies in the middle; the job ends well. Seconds without it, of the job; the queue."""
    job = submitted(cluster, job_file(cluster, folder, 60), place)
    job.wait(lambda: job.splits_done() >= 2, "two files are read")
    queue = shown_queue(job)
    begun, before = time.monotonic(), registered(job)
    job.kill(job.child("worker", 1))
    job.wait(lambda: registered(job) > before, "the worker is back")
    back_s, verdict = time.monotonic() - begun, job.verdict()
    assert (verdict.state, verdict.restarts) == ("SUCCEEDED", 1), job.story()
    written = job.events(ev.CheckpointWritten)[-1]
    assert storage.exists(written.manifest)
    job.wait_for_application_end()
    assert from_configuration().application(job.id).final_status == "SUCCEEDED"
    job.wait_for_no_process()
    return back_s, verdict.seconds, queue


def registered(job: LiveJob) -> int:
    """How often the second worker came."""
    return [str(each.task) for each in job.events(ev.TaskRegistered)].count("worker:1")


def shown_queue(job: LiveJob) -> str:
    """The path that `afo queue` shows for the job, with what the job uses and whether it fits."""
    done = afo("queue", job.id, "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["queue"]["used"]["memory_mib"] >= 1024 + 2 * 1536, shown
    assert {room["role"] for room in shown["containers"]} == {"am", "ps", "worker"}
    return str(shown["queue"]["path"])


def is_killed_while_it_waits(cluster: Cluster, folder: Path, place: str) -> tuple[str, float]:
    """One of more workers than there is room for, and then `afo kill`. What it said, and seconds until it was over."""
    job = submitted(cluster, job_file(cluster, folder, FOREVER, workers=8), place)
    job.wait(lambda: bool(job.events(ev.ContainersAwaited)), "it says what it waits for")
    words = job.events(ev.ContainersAwaited)[0].message
    begun = time.monotonic()
    assert afo("kill", job.id, "--yes").returncode == 0
    job.wait_for_application_end()
    assert job.verdict(60).state == "KILLED"
    job.wait_for_no_process()
    return words, time.monotonic() - begun


def report(runs: list[Run]) -> str:
    """A page of them."""
    lines = [
        circumstances(runs, "tensorflow-cpu", "hdfs-native", "skein"),
        "",
        "| Hadoop | Java | scheduler | up s | job s | worker back s | killed s | queue of the job | said of a wait |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(
            f"| {run.setup.hadoop} | {run.setup.java} | {run.setup.scheduler} | {run.up_s:.0f} | {run.job_s:.0f} "
            f"| {run.back_s:.0f} | {run.kill_s:.0f} | {run.queue} | {run.wait} |"
        )
    return "\n".join([*lines, ""])

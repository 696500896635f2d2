"""The history server over 10,000 jobs and a log of 5 GB, asked by 50 clients at once.

The limits are those of the project: 300 ms for 99 of 100 lists and pages of a job, 200 ms for a range of the log,
500 MB resident, a minute for the first scan, 5 s until a new job is seen. Clients keep their connections, pause
for a second between two requests as people do at the least, and share the machine with the server.
"""

import argparse
import http.client
import multiprocessing
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
from report import MISSED, publish, result
from size import sized

from afo import __version__
from afo.events import event_log
from afo.events import types as ev
from afo.formats import json_file
from afo.job import Data, Job, RoleSpec
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.rpc.messages import TaskId

CLIENTS, SENDERS, PAUSE_S = sized(50, 4), 2, sized(1.0, 0.01)
LOG = "application_1763000000000_0001"
LIMITS_MS = {"list": 300.0, "job": 300.0, "log": 200.0}
_DAY = 86400.0


def write_job(root: str, number: int, now: float) -> str:
    """A job of an hour with two workers and 120 samples; 1 of 10 failed, the newest 20 run."""
    job_id = f"application_1763000000000_{number:04d}"
    paths, begun = JobPaths(root, job_id), now - number * 600
    user, tags = f"user-{number % 40}", {"team": f"team-{number % 7}"}
    job = Job(name=f"ctr-{number % 300}", tags=tags, roles={"ps": RoleSpec(), "worker": RoleSpec(instances=2)},
              data=Data(schema="s", train=("a",)))  # fmt: skip
    config = AmConfig(job=job, user=user, afo_version=__version__, runtime="yarn", jobs_root=root, job_id=job_id,
                      train_files=("a",), secret_file="s", schema_file="s", submitted=begun)  # fmt: skip
    write(paths.job, json_file.encode(config))
    records = [
        event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=begun + time, event=event)
        for seq, (time, event) in enumerate(events(config, begun))
    ]
    write(paths.events_segment(1, 1), b"".join(map(event_log.encode_line, records)))
    if number > 20:
        state, cause = ("FAILED", "user_exception") if number % 10 == 0 else ("SUCCEEDED", "succeeded")
        verdict = ev.JobFinished(state=state, cause=cause, diagnostics="", metrics={"auc": 0.75}, samples=9, step=9,
                                 seconds=3600.0, core_hours=4.0, memory_gb_hours=9.0, restarts=0)  # fmt: skip
        write(paths.verdict, msgspec.json.encode(verdict))
    return job_id


def events(config: AmConfig, begun: float) -> Iterator[tuple[float, ev.AnyEvent]]:
    """What the log of such a job holds, by seconds since its beginning."""
    yield 0, ev.JobStarted(
        job_id=config.job_id, name=config.job.name, user=config.user, queue="default", runtime="yarn",
        afo_version=__version__, submitted=begun, eval_files=(), epochs=1,
    )  # fmt: skip
    yield 0, ev.SplitsAdded(first=0, splits=tuple(config.splits), closed=True)
    for role, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        task = msgspec.convert({"role": role, "index": index, "attempt": 0}, TaskId)
        yield 1, ev.ContainerRequested(task=task, memory=2048, vcores=1)
        yield 9, ev.TaskRegistered(task=task, container="c", host="h", pid=7, log_url="", environment={})
    for minute in range(120):
        step = 1000 * minute
        yield 30.0 * minute, ev.Sample(step=step, samples=step, samples_per_s=5e4, input_wait=0.1, loss=0.5)
        if minute % 20 == 0:
            yield 30.0 * minute, ev.Evaluated(task=task, step=step, manifest="m", metrics={"auc": 0.75}, final=False)


def write(path: str, data: bytes) -> None:
    """A file and the directories above it."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data)


def write_log(root: str, size: int) -> None:
    """A log of a worker of the newest job."""
    line = b"2026-11-21 08:15:00,123 INFO afo: step %09d loss 0.41 samples/s 52000 waiting 3 %%\n"
    block = b"".join(line % number for number in range(20_000))
    path = Path(JobPaths(root, LOG).logs) / "worker_0" / "0" / "stderr"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)


def ask(
    port: int, clients: int, jobs: int, log_bytes: int, seconds: float, into: "multiprocessing.Queue[object]"
) -> None:
    """So many clients for so long, in threads of this process; gives the seconds of each kind of request."""
    taken: dict[str, list[float]] = defaultdict(list)
    until = time.monotonic() + seconds

    def client(seed: int) -> None:
        chance = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        time.sleep(chance.random() * PAUSE_S)
        while time.monotonic() < until:
            kind, path = question(chance, jobs, log_bytes)
            begun = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            taken[kind].append(time.perf_counter() - begun)
            assert answer.status == 200, (path, answer.status)
            time.sleep(PAUSE_S)
        connection.close()

    threads = [threading.Thread(target=client, args=(random.random(),)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    into.put(dict(taken))


def question(chance: random.Random, jobs: int, log_bytes: int) -> tuple[str, str]:
    """What somebody asks for: a list, searched or sorted or not, a job, or a part of the long log."""
    kind = chance.choice(("list", "job", "log"))
    if kind == "list":
        asked = chance.choice(("", "?state=FAILED", f"?q=ctr-{chance.randrange(300)}", "?sort=core_hours", "?page=100",
                               f"?user=user-{chance.randrange(40)}&sort=name"))  # fmt: skip
        return kind, f"/{asked}"
    if kind == "job":
        return kind, f"/jobs/application_1763000000000_{1 + chance.randrange(jobs):04d}"
    return kind, f"/jobs/{LOG}/logs/worker_0/0/stderr?offset={chance.randrange(log_bytes)}"


def get(port: int, path: str) -> bytes:
    """The body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def measure(root: str, jobs: int, log_bytes: int, seconds: float) -> dict[str, float]:
    """Figures in seconds and bytes."""
    command = [sys.executable, "-m", "afo_history_server", "--root", root, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        try:
            begun = time.perf_counter()
            assert b"ctr-" in get(port, "/")
            figures = {"scan": time.perf_counter() - begun}
            figures |= loaded(port, jobs, log_bytes, seconds)
            figures["rss"] = float(psutil.Process(server.pid).memory_info().rss)
            begun, job_id = time.perf_counter(), write_job(root, jobs + 1, time.time() + _DAY * 365)
            while job_id.encode() not in get(port, "/api/v1/jobs"):
                time.sleep(0.1)
            return figures | {"seen": time.perf_counter() - begun}
        finally:
            server.terminate()


def loaded(port: int, jobs: int, log_bytes: int, seconds: float) -> dict[str, float]:
    """The 99th of 100 of each kind, with all clients at once."""
    results: multiprocessing.Queue[dict[str, list[float]]] = multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=ask, args=(port, CLIENTS // SENDERS, jobs, log_bytes, seconds, results))
        for _ in range(SENDERS)
    ]
    for process in processes:
        process.start()
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in processes:
        for kind, times in results.get().items():
            taken[kind] += times
    for process in processes:
        process.join()
    print({kind: f"{len(times)} requests, median {sorted(times)[len(times) // 2] * 1000:.0f} ms"
           for kind, times in taken.items()})  # fmt: skip
    return {kind: sorted(times)[int(len(times) * 0.99)] for kind, times in taken.items()}


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=sized(10_000, 30))
    parser.add_argument("--log-mb", type=int, default=sized(5_000, 2))
    parser.add_argument("--seconds", type=float, default=sized(60.0, 1.0))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="afo-history-") as root:
        now = time.time()
        for number in range(1, options.jobs + 1):
            write_job(root, number, now)
        write_log(root, options.log_mb * 1_000_000)
        figures = measure(root, options.jobs, options.log_mb * 1_000_000, options.seconds)

    def claim(name: str, figure: float, limit: float, unit: str) -> dict[str, object]:
        return result(f"history server, {options.jobs} jobs: {name}", figure, limit, unit, 1.0, lower_is_better=True)

    claims = [claim(f"{kind}, 99 of 100", 1000 * figures[kind], limit, "ms") for kind, limit in LIMITS_MS.items()]
    claims.append(claim("first scan", figures["scan"], 60.0, "s"))
    claims.append(claim("resident", figures["rss"] / 1e6, 500.0, "MB"))
    claims.append(claim("a new job is seen", figures["seen"], 5.0, "s"))
    return 0 if publish("history", claims) else MISSED


if __name__ == "__main__":
    sys.exit(main())

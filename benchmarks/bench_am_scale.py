"""The Application Master with 4,000 tasks: its real core, journal and gRPC server, tasks simulated by other processes.

Every simulated task has a connection of its own and heartbeats every 5 seconds with what a real Child sends. Limits:
half a core, 500 MB, and 100 ms for 99 of 100 heartbeats as their sender sees them.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import resource
import statistics
import sys
import tempfile
import threading
import time

import grpc
import psutil
from report import MISSED, publish, result
from size import sized

from afo import __version__, storage
from afo.events import types as ev
from afo.job import Data, Job, RoleSpec
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.rpc import tls, wire
from afo.rpc.server import RpcServer
from afo_am.core.core import Core
from afo_am.engine.driver import Driver
from afo_am.engine.journal import Journal
from afo_am.runtime.base import ContainerInfo, FinalState, Node

HEARTBEAT_S = sized(5.0, 0.2)
SENDERS = 2
#: Everybody registers and the first heartbeats form the generation; what comes later is measured.
WARM_UP_S = sized(40.0, 3.0)


class SimulatedRuntime:
    """Containers that run as soon as they are asked for."""

    def __init__(self) -> None:
        self._containers: list[ContainerInfo] = []

    def request(self, task: m.TaskId, env: dict[str, str], *, more_memory: bool = False) -> str:
        """A handle at once."""
        handle = f"c{len(self._containers)}"
        self._containers.append(ContainerInfo(handle=handle, state="running", container=handle, host="host"))
        return handle

    def kill(self, handle: str) -> None:
        """Ends nothing: there is nothing."""

    def list_containers(self) -> list[ContainerInfo]:
        """All that were asked for."""
        return list(self._containers)

    def progress(self, fraction: float) -> None:
        """Nobody watches."""

    def finish(self, state: FinalState, diagnostics: str) -> None:
        """Nothing to end."""

    def nodes(self) -> list[Node]:
        """None."""
        return []

    def queue(self) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing is held."""


def config(tasks: int, root: str) -> AmConfig:
    """A job of `tasks` tasks."""
    roles = {"ps": RoleSpec(instances=tasks // 10), "worker": RoleSpec(instances=tasks - tasks // 10)}
    job = Job(name="scale", roles=roles, data=Data(schema="-", train=("-",)))  # type: ignore[arg-type]
    return AmConfig(
        job=job, user="bench", afo_version=__version__, runtime="local", jobs_root=root, job_id="local_1_0001",
        train_files=tuple(f"file:///{n}" for n in range(1000)), secret_file="-", schema_file="-", submitted=time.time(),
    )  # fmt: skip


def serve(tasks: int, secret: str, address: "multiprocessing.Queue[str]") -> None:
    """The AM's process."""
    with tempfile.TemporaryDirectory() as root:
        settings = config(tasks, root)
        paths = JobPaths(root, "local_1_0001")
        storage.make_dirs(paths.events)
        core = Core(settings, now=time.monotonic())
        driver = Driver(core, Journal(paths, 1, 1, 0), SimulatedRuntime(), paths)
        handlers = dict.fromkeys(("Register", "Heartbeat"), driver.ask)
        server = RpcServer(handlers, secret, "127.0.0.1", threads=4, connections=3 * tasks + 256)
        server.start()
        started = ev.AmStarted(am_attempt=1, incarnation=1, address=server.address, host="h", pid=os.getpid())
        threading.Thread(target=driver.run, args=(started,), daemon=True).start()
        address.put(server.address)
        threading.Event().wait()


def send(
    numbers: list[m.TaskId], address: str, secret: str, seconds: float, latencies: "multiprocessing.Queue[str]"
) -> None:
    """One process of simulated Children."""
    asyncio.run(_send(numbers, address, secret, seconds, latencies))


async def _send(
    numbers: list[m.TaskId], address: str, secret: str, seconds: float, latencies: "multiprocessing.Queue[str]"
) -> None:
    measured: list[float] = []
    gate = asyncio.Semaphore(200)
    start = time.monotonic()
    span = (start + WARM_UP_S, start + WARM_UP_S + seconds)
    credentials = tls.channel_credentials(secret)
    await asyncio.gather(*(_task(task, address, credentials, span, measured, gate) for task in numbers))
    latencies.put(json.dumps(measured))


async def _task(
    task: m.TaskId,
    address: str,
    credentials: grpc.ChannelCredentials,
    span: tuple[float, float],
    measured: list[float],
    gate: asyncio.Semaphore,
) -> None:
    options = [*tls.OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        async with gate:
            register = m.RegisterRequest(
                task=task, container="c", host="host", pid=1, afo_version=__version__, protocol=m.PROTOCOL,
                environment={"python": "3.11"}, log_url="",
            )  # fmt: skip
            call = channel.unary_unary(f"/{wire.SERVICE}/Register")
            await call(wire.encode(register), timeout=60)
        beat = channel.unary_unary(f"/{wire.SERVICE}/Heartbeat")
        await asyncio.sleep(random.uniform(0, HEARTBEAT_S))
        steps = 0
        while time.monotonic() < span[1]:
            steps += 10
            body = wire.encode(
                m.HeartbeatRequest(
                    task=task, generation=1, process_alive=True, address=f"h:{task.index}" if task.role == "ps" else "",
                    progress=Progress(phase="training", step=steps, samples=steps << 10, step_s=steps / 100, loss=0.4),
                    usage=m.Usage(rss=10**9, peak_rss=10**9, cpu_s=float(steps)),
                )
            )  # fmt: skip
            before = time.monotonic()
            await beat(body, timeout=60)
            if before >= span[0]:
                measured.append(time.monotonic() - before)
            await asyncio.sleep(HEARTBEAT_S - (time.monotonic() - before))


def main() -> int:
    """0 if all limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=sized(4000, 20))
    parser.add_argument("--seconds", type=float, default=sized(60.0, 2.0))
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 65536)), hard))

    context = multiprocessing.get_context("spawn")
    secret, address, latencies = wire.new_secret(), context.Queue(), context.Queue()
    am = context.Process(target=serve, args=(arguments.tasks, secret, address), daemon=True)
    am.start()
    where = address.get(timeout=60)
    ps = arguments.tasks // 10
    tasks = [m.TaskId(role="ps", index=n, attempt=0) for n in range(ps)]
    tasks += [m.TaskId(role="worker", index=n, attempt=0) for n in range(arguments.tasks - ps)]
    senders = [
        context.Process(target=send, args=(tasks[n::SENDERS], where, secret, arguments.seconds, latencies), daemon=True)
        for n in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    time.sleep(WARM_UP_S)
    process = psutil.Process(am.pid)
    before = process.cpu_times()
    time.sleep(arguments.seconds)
    after = process.cpu_times()
    cores = (after.user + after.system - before.user - before.system) / arguments.seconds
    memory = process.memory_info().rss / 1e6
    times = sorted(value for _ in senders for value in json.loads(latencies.get(timeout=120)))
    p99 = times[int(len(times) * 0.99)] * 1000
    am.kill()
    print(f"{arguments.tasks} tasks, {len(times)} heartbeats, median {statistics.median(times) * 1000:.1f} ms")
    kept = publish(
        "am_scale",
        [
            result("AM cores at 4,000 tasks", cores, 0.5, "cores", 1.0, lower_is_better=True),
            result("AM heartbeat p99 at 4,000 tasks", p99, 100.0, "ms", 1.0, lower_is_better=True),
            result("AM memory at 4,000 tasks", memory, 500.0, "MB", 1.0, lower_is_better=True),
        ],
    )
    return 0 if kept else MISSED


if __name__ == "__main__":
    sys.exit(main())

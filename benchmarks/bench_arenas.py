"""What `MALLOC_ARENA_MAX` changes in a worker and its parameter servers: memory, and the processor's time for a sample.

The trainer's own step (`job_step.py`), a worker and two servers for each of four settings: glibc's default (8 arenas a
core), which a task gets unless its job says otherwise, and 1, 2 and 4, of which 4 is what YARN's NodeManager would
force on it. All are started at once and take turns, so that what others do on the machine meets them alike. Memory is
what is resident after the last turn. The default is held against each of the others.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import psutil
from job_worker import ONE_CORE, Worker, processor, workers
from report import MISSED, publish, result
from servers import servers
from size import sized

VARIABLE, DEFAULT = "MALLOC_ARENA_MAX", ""
SETTINGS = sized((DEFAULT, "1", "2", "4"), (DEFAULT, "4"))
SERVERS = 2
#: Of the other's processor and memory over the default's: no more than a twentieth is lost by leaving it alone.
AT_LEAST = 0.95


class Side(NamedTuple):
    """The processes of one setting."""

    worker: Worker
    servers: list[psutil.Process]

    def seconds(self) -> tuple[float, float]:
        """Of the processor so far: the worker's, and all servers'."""
        return processor([self.worker.process]), processor(self.servers)

    def resident(self) -> tuple[float, float]:
        """MB of the worker, and of a server in the mean."""
        serving = statistics.mean(each.memory_info().rss for each in self.servers)
        return self.worker.process.memory_info().rss / 1e6, serving / 1e6


@contextmanager
def started(setting: str, given: argparse.Namespace) -> Iterator[Side]:
    """One setting's processes, ready."""
    threads = {name: str(given.threads) for name in ONE_CORE if name.endswith("THREADS")}
    environment = ONE_CORE | threads | ({VARIABLE: setting} if setting else {})
    with (
        servers(SERVERS, environment=environment) as (addresses, processes),
        workers(1, addresses, given.batches, environment) as (worker,),
    ):
        yield Side(worker, processes)


def turn(side: Side, times: int) -> tuple[float, float]:
    """Microseconds of the processor a sample: the worker's, and all servers'."""
    before = side.seconds()
    side.worker.turn(times)
    samples = side.worker.wait()
    worker, serving = (1e6 * (now - then) / samples for now, then in zip(side.seconds(), before, strict=True))
    return worker, serving


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(10, 1))
    options.add_argument("--batches", type=int, default=sized(8, 1))
    options.add_argument("--times", type=int, default=sized(5, 40), help="that a turn goes through the batches")
    options.add_argument("--threads", type=int, default=2, help="of each pool of a process")
    given = options.parse_args()
    os.environ.pop(VARIABLE, None)
    results = []
    with ExitStack() as stack:
        sides = {setting: stack.enter_context(started(setting, given)) for setting in SETTINGS}
        spent: dict[str, list[tuple[float, float]]] = {setting: [] for setting in SETTINGS}
        for number in range(given.rounds):
            for setting in SETTINGS if number % 2 else SETTINGS[::-1]:
                spent[setting].append(turn(sides[setting], given.times))
        resident = {setting: side.resident() for setting, side in sides.items()}
    median = {
        setting: [statistics.median(each) for each in zip(*turns, strict=True)] for setting, turns in spent.items()
    }
    for setting in SETTINGS:
        figures = zip(("worker", "servers"), median[setting], resident[setting], strict=True)
        said = ", ".join(f"{who} {cost:.1f} µs a sample, {memory:.0f} MB" for who, cost, memory in figures)
        print(f"{VARIABLE}={setting or 'default'}: {said} each")
    for place, who in enumerate(("worker", "servers")):
        for setting in SETTINGS[1:]:
            for what, found, unit in (("processor a sample", median, "µs"), ("resident", resident, "MB")):
                ours, theirs = found[DEFAULT][place], found[setting][place]
                name = f"{what}, {who}, default against {VARIABLE}={setting}"
                results.append(result(name, ours, theirs, unit, AT_LEAST, lower_is_better=True))
    return 0 if publish("arenas", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

"""Parameter servers of our own (`engine: psplus`) against TensorFlow's (`tensorflow`), side by side on this machine.

Parts, of which `--parts` names some: `rows`, a pull and a push of 40,000 rows, against the other engine, a bare socket
with the same bytes, and the tables alone in one process; `servers`, the price of each further server; `job`, steps of
two workers on two servers from records on, with each depth of `train.pipeline`; `memory`, of a server without tables;
`loss`, from the death of a server to the next step of every worker (`server_loss.py`). Prices are processor time of all
processes from `/proc`, which others' load changes less than the clock. Connections of `psplus` are encrypted, those of
`tensorflow` and of the socket are not.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from job_step import BATCH
from job_worker import processor, taken, workers
from report import MISSED, publish, result
from server_loss import seconds_until_all_step
from servers import servers
from sides import Side
from size import sized

ENGINES = ("psplus", "tensorflow")
HERE = Path(__file__).parent
#: Keys, counts and rows in bfloat16 of a pull and a push of 40,000 rows, there and back.
EXCHANGED = [[480_000, 1_280_000], [1_280_000, 100]]
SMALL = BATCH // 8
AT_LEAST = {BATCH: 1.2, SMALL: 1.5}
Results = list[dict[str, object]]


class Spent(NamedTuple):
    """Of calls of one case, in milliseconds: of the processor at each end, and by the clock."""

    client: float
    servers: float
    seconds: list[float]

    @property
    def both(self) -> float:
        """Ends together; above 0 however few ticks of the kernel's clock that were."""
        return max(self.client + self.servers, 1e-2)

    def line(self, name: str) -> str:
        """For people."""
        cuts = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else self.seconds * 99
        ends = f"client {self.client:.2f} + servers {self.servers:.2f} = {self.both:.2f} core-ms"
        return f"{name}: {ends}, p50 {cuts[49] * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms"


class Asked:
    """A client process and the servers it asks."""

    def __init__(self, side: Side, serving: Sequence[psutil.Process]) -> None:
        self._side, self._serving = side, serving
        self._client = [psutil.Process(side.about["pid"])]

    def spend(self, case: str, calls: int) -> Spent:
        """So many calls."""
        before = processor(self._client), processor(self._serving)
        seconds = self._side.measure(case, calls)
        after = processor(self._client), processor(self._serving)
        client, server = (1e3 * (now - then) / calls for now, then in zip(after, before, strict=True))
        return Spent(client, server, seconds)


@contextmanager
def asked(engine: str, kind: str, counts: Sequence[int]) -> Iterator[Asked]:
    """A client with a case of `kind` for each number of servers."""
    with ExitStack() as stack:
        addresses: list[str] = []
        serving: list[psutil.Process] = []
        if engine in ENGINES:
            addresses, serving = stack.enter_context(servers(max(counts), engine=engine))
        words = [engine, json.dumps(addresses), kind, json.dumps(list(counts))]
        yield Asked(
            stack.enter_context(Side(engine, [sys.executable, str(HERE / "engine_client.py"), *words])), serving
        )


@contextmanager
def echoed() -> Iterator[Asked]:
    """The bare socket."""
    command = [sys.executable, str(HERE / "socket_echo.py"), json.dumps(EXCHANGED)]
    with Side("socket", command) as side:
        yield Asked(side, [psutil.Process(side.about["other"])])


def in_turns(sides: dict[Any, Callable[[], Spent]], rounds: int) -> dict[Any, Spent]:
    """Medians of each over the rounds; seconds of all of them."""
    found: dict[Any, list[Spent]] = {name: [] for name in sides}
    for _, (name, spend) in product(range(rounds), sides.items()):
        found[name].append(spend())
    return {
        name: Spent(
            statistics.median(each.client for each in spent), statistics.median(each.servers for each in spent),
            [second for each in spent for second in each.seconds],
        )
        for name, spent in found.items()
    }  # fmt: skip


def rows(given: argparse.Namespace) -> Results:
    """Pull and push."""
    counts, calls = (1, 2), sized(100, 2)
    with ExitStack() as stack:
        sides: dict[Any, Callable[[], Spent]] = {}
        for engine, numbers in (*((each, counts) for each in ENGINES), ("none", (1,))):
            one = stack.enter_context(asked(engine, "rows", numbers))
            for count in numbers:
                sides[engine, count] = lambda one=one, count=count: one.spend(f"rows on {count}", calls)
        bare = stack.enter_context(echoed())
        sides["socket", 1] = lambda: bare.spend("exchange", calls)
        spent = in_turns(sides, given.rounds)
    for (name, count), each in spent.items():
        print(each.line(f"rows, {name}, {count}"))
    tables, socket = spent["none", 1].both, spent["socket", 1].both
    results: Results = []
    for count in counts:
        ours, theirs = spent["psplus", count].both, spent["tensorflow", count].both
        of = f"rows of {count} servers"
        results += [
            result(f"{of}, both ends", ours, theirs, "core-ms", 4, lower_is_better=True),
            result(
                f"{of}, less the tables alone", max(ours - tables, 1e-2), max(theirs - tables, 1e-2), "core-ms", 4,
                lower_is_better=True,
            ),
            result(
                f"{of}, less the tables, against a bare socket", max(ours - tables, 1e-2), socket, "core-ms", 1 / 1.6,
                lower_is_better=True,
            ),
        ]  # fmt: skip
    return results


def further(given: argparse.Namespace) -> Results:
    """Each further server."""
    counts, calls = sized((1, 8), (1, 2)), sized(24, 2)
    with ExitStack() as stack:
        sides: dict[Any, Callable[[], Spent]] = {}
        for engine in ENGINES:
            one = stack.enter_context(asked(engine, "step", counts))
            for count in counts:
                sides[engine, count] = lambda one=one, count=count: one.spend(f"step on {count}", calls)
        spent = in_turns(sides, given.rounds)
    for (name, count), each in spent.items():
        print(each.line(f"a step without layers, {name}, {count}"))
    prices = [
        max((spent[engine, counts[-1]].both - spent[engine, counts[0]].both) / (counts[-1] - counts[0]), 1e-2)
        for engine in ENGINES
    ]
    return [result(f"each further server up to {counts[-1]}", *prices, "core-ms", 3, lower_is_better=True)]


def job(given: argparse.Namespace) -> Results:
    """Two workers, two servers."""
    depths, batches = given.depths, sized(4, 1)
    found: dict[tuple[str, int, int], list[Any]] = {}
    with ExitStack() as stack:
        sides = {}
        for engine in ENGINES:
            addresses, serving = stack.enter_context(servers(2, threads=1, engine=engine))
            more = {"sizes": (BATCH, SMALL), "depths": depths, "engine": engine}
            sides[engine] = stack.enter_context(workers(2, addresses, batches, **more)), serving
        for _, size, depth, engine in product(range(given.rounds), (BATCH, SMALL), depths, ENGINES):
            turn = taken(*sides[engine], sized(4, 1) if size == BATCH else sized(2, 1), size, depth)
            found.setdefault((engine, size, depth), []).append(turn)
            print(f"job, {engine}, batch {size}, pipeline {depth}: {1 / turn.wall:,.0f} samples/s", flush=True)
    wall, core, serving_core = (
        {key: statistics.median(each[place] for each in turns) for key, turns in found.items()} for place in (1, 0, 2)
    )
    for engine, size, depth in found:
        key = engine, size, depth
        of_servers, of_all = (1e3 * size * each[key] for each in (serving_core, core))
        print(
            f"job, {engine}, batch {size}, pipeline {depth}: {1 / wall[key]:,.0f} samples/s, a step"
            f" {of_all - of_servers:.1f} core-ms of the worker and {of_servers:.1f} of the servers"
        )
    results: Results = []
    for size in (BATCH, SMALL):
        best = [min(depths, key=lambda depth, engine=engine: wall[engine, size, depth]) for engine in ENGINES]
        keys = [(engine, size, depth) for engine, depth in zip(ENGINES, best, strict=True)]
        of, step = f"job, batch {size}", 1e3 * size
        results += [
            result(f"{of}, each at its best pipeline", *(1 / wall[key] for key in keys), "samples/s", AT_LEAST[size],
                   lower_is_better=False),
            result(f"{of}, all processes", *(max(step * core[key], 1e-2) for key in keys), "core-ms a step", 2,
                   lower_is_better=True),
            result(f"{of}, servers", *(max(step * serving_core[key], 1e-2) for key in keys), "core-ms a step", 3,
                   lower_is_better=True),
        ]  # fmt: skip
    return results


def memory(_: argparse.Namespace) -> Results:
    """A server that has no tables yet."""
    resident = []
    for engine in ENGINES:
        with servers(1, engine=engine) as (_, (server,)):
            resident.append(server.memory_info().rss / 2**20)
    bar = result("memory of a server without tables, against 100 MiB", resident[0], 100, "MiB", 1, lower_is_better=True)
    return [bar, result("the same against the other engine", *resident, "MiB", 1, lower_is_better=True)]


def loss(_: argparse.Namespace) -> Results:
    """All workers step again."""
    seconds, size = seconds_until_all_step(sized(400_000, 400))
    name = f"after a server's death, with a checkpoint of {size / 1e6:.0f} MB, against 3 s"
    return [result(name, seconds, 3, "s", 1, lower_is_better=True)]


PARTS = {"rows": rows, "servers": further, "job": job, "memory": memory, "loss": loss}


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=sized(7, 1))
    options.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    options.add_argument("--depths", nargs="*", type=int, default=sized([0, 1, 2], [0, 1]), help="of the pipeline")
    given = options.parse_args()
    held = [publish(f"psplus_{part}", PARTS[part](given)) for part in given.parts]
    return 0 if all(held) else MISSED


if __name__ == "__main__":
    sys.exit(main())

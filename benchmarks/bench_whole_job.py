"""The steps of a whole job by this code and by another checkout's: two parameter servers and two workers.

The trainer's own step of Wide & Deep on hash tables (`job_step`: 26 features, width 16, layers of 256, 128 and 64,
AdaGrad, no pipeline), each from serialized records to what a worker fetches; batches of 4096 and of 512. `--other
DIRECTORY` is a checkout with its library built; without it there is nothing to compare. Each side has servers and
workers of its own, with the code of its checkout and the threads of a container of one core, which all stay while
sides take turns (A B B A …) of the same samples. Compared are the clock and the time of the processor of all of a
side's processes, for a sample; printed is also which threads of workers and servers took that time.
"""

import argparse
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import psutil
from job_worker import ONE_CORE, Turn, Worker, taken, workers
from report import MISSED, publish, result
from servers import servers
from size import sized
from thread_times import thread_times

PROJECT = Path(__file__).parent.parent
SERVERS, WORKERS = 2, 2
SIZES = sized((4096, 512), (64, 8))
AT_LEAST = 1.05


class Side(NamedTuple):
    """The running processes of a checkout."""

    name: str
    workers: list[Worker]
    servers: list[psutil.Process]

    def roles(self) -> dict[str, list[psutil.Process]]:
        """Processes by what they are."""
        return {"worker": [worker.process for worker in self.workers], "server": self.servers}


@contextmanager
def running(name: str, checkout: Path, batches: int) -> Iterator[Side]:
    """A side that has gone through its batches once. Raises RuntimeError if a process runs another's library."""
    environment = ONE_CORE | {"PYTHONPATH": str(checkout)}
    with (
        servers(SERVERS, environment=environment) as (addresses, serving),
        workers(WORKERS, addresses, batches, environment, SIZES) as ready,
    ):
        side = Side(name, ready, serving)
        for process in (each for processes in side.roles().values() for each in processes):
            loaded = [each.path for each in process.memory_maps() if Path(each.path).name.startswith("_afo_ops")]
            if not loaded or not all(Path(path).is_relative_to(checkout) for path in loaded):
                raise RuntimeError(f"{name}: a process of {checkout} has loaded {loaded or 'no library of afo'}")
        print(f"{name}: {checkout}, commit {commit_of(checkout)}")
        yield side


def commit_of(checkout: Path) -> str:
    """Its commit, with `-dirty` where files differ from it; `unknown` without git."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


class Measured(NamedTuple):
    """Turns by batch size and side, and seconds of all turns by kind of thread."""

    turns: dict[tuple[int, str], list[Turn]]
    threads: dict[tuple[int, str], Counter[str]]


def measure(sides: Sequence[Side], rounds: int, times: dict[int, int], to: Measured) -> None:
    """Let the sides take turns."""
    turns, threads = to
    for number, size in product(range(rounds), SIZES):
        for side in sides if number % 2 == 0 else sides[::-1]:
            before = thread_times(side.roles())
            turns.setdefault((size, side.name), []).append(taken(side.workers, side.servers, times[size], size))
            threads.setdefault((size, side.name), Counter()).update(thread_times(side.roles()) - before)


def shares(threads: dict[tuple[int, str], Counter[str]], samples: dict[int, int], sides: Sequence[str]) -> str:
    """Microseconds of the processor a sample by kind of thread, as tables of Markdown."""
    lines: list[str] = []
    for size in SIZES:
        lines += [f"| batches of {size}, µs of the processor a sample | {' | '.join(sides)} |", "|---|---|---|"]
        found = [threads[size, side] for side in sides]
        for kind, _ in sum(found, Counter[str]()).most_common():
            figures = " | ".join(f"{1e6 * each[kind] / samples[size]:.1f}" for each in found)
            lines.append(f"| {kind} | {figures} |")
    return "\n".join(lines)


def quarters(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """How the ratio of a round varies: what the machine's other load makes of one."""
    ratios = sorted(other / own for own, other in zip(ours, theirs, strict=True))
    low, middle, high = (ratios[len(ratios) * quarter // 4] for quarter in (1, 2, 3))
    return f"half of the ratios between {low:.2f} and {high:.2f}, median {middle:.2f}"


def typical(values: Sequence[float]) -> float:
    """The mean of the medians of both orders of starting."""
    half = len(values) // 2
    return statistics.fmean(statistics.median(part) for part in (values[:half], values[half:]))


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--other", type=Path, default=sized(None, PROJECT))
    options.add_argument("--rounds", type=int, default=sized(12, 2))
    options.add_argument("--batches", type=int, default=sized(8, 1), help="different large ones of each worker")
    options.add_argument("--times", type=int, default=sized(2, 2), help="that a turn goes through the batches")
    given = options.parse_args()
    if given.other is None:
        print("no `--other DIRECTORY` was given: nothing to compare")
        return 0
    checkouts = {"ours": PROJECT.resolve(), "theirs": given.other.resolve()}
    turns, threads = found = Measured({}, {})
    # Twice: of two sides alike, the one that started first was slower by up to 5 %.
    for order in (list(checkouts), list(checkouts)[::-1]):
        with ExitStack() as stack:
            sides = [stack.enter_context(running(name, checkouts[name], given.batches)) for name in order]
            measure(sides, given.rounds // 2, dict.fromkeys(SIZES, given.times), found)
    samples = dict.fromkeys(SIZES, given.rounds * given.times * given.batches * SIZES[0] * WORKERS)
    print(shares(threads, samples, list(checkouts)))
    results = []
    for size, (field, what) in product(SIZES, (("wall", "clock"), ("processor", "processor"))):
        ours, theirs = ([1e6 * getattr(turn, field) for turn in turns[size, name]] for name in checkouts)
        name = f"batches of {size}, {what} a sample"
        print(f"{name}, rounds: {quarters(ours, theirs)}")
        results.append(result(name, typical(ours), typical(theirs), "µs", AT_LEAST, lower_is_better=True))
    return 0 if publish("whole_job", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

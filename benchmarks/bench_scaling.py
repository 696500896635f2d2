"""What a sample costs the processor as a job grows: 1, 2, 4 workers by 1, 2, 4 parameter servers, on this machine.

The trainer's own step (`job_step.py`) on hash tables with AdaGrad; processes with the threads of a container of one
core. Workers do not wait for each other. Compared is the time of the processor of all processes together for a sample,
which other programs on the machine and too few cores for so many processes change little; samples a second of the wall
clock are printed beside it. For each number of servers all workers are started, and turns of the first one, two, four
of them alternate. `--most 16` goes on to 8 and 16 of each, which takes a machine with as many cores.
"""

import argparse
import statistics
import sys

from job_worker import ONE_CORE, Turn, taken, workers
from report import MISSED, publish, result
from servers import servers
from size import sized

#: Of the processor's time for a sample with one worker and one server, over that of any other cell.
AT_LEAST = 0.8


Cells = dict[tuple[int, int], list[Turn]]


def doubled(most: int) -> list[int]:
    """1, 2, 4 … up to `most`."""
    return [1 << power for power in range(most.bit_length())]


def measured(number: int, counts: list[int], given: argparse.Namespace) -> dict[int, list[Turn]]:
    """Turns by the number of workers, on `number` servers."""
    turns: dict[int, list[Turn]] = {count: [] for count in counts}
    with (
        servers(number, environment=ONE_CORE) as (addresses, serving),
        workers(max(counts), addresses, given.batches) as ready,
    ):
        for _ in range(given.rounds):
            for count, found in turns.items():
                found.append(taken(ready[:count], serving, given.times))
    return turns


def table(median: dict[tuple[int, int], Turn], counts: list[int]) -> None:
    """Microseconds of the processor a sample, and samples a second, by workers and servers."""
    for name, figure in (
        ("µs of the processor a sample", lambda turn: 1e6 * turn.processor),
        ("samples/s", lambda turn: 1 / turn.wall),
    ):
        print(f"{name}; workers down, servers {', '.join(map(str, counts))} across")
        for workers_ in counts:
            print(f"{workers_:3} " + " ".join(f"{figure(median[workers_, servers_]):10.1f}" for servers_ in counts))


def main() -> int:
    """0 if the claims hold."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--most", type=int, default=sized(4, 2), help="workers and servers")
    options.add_argument("--passes", type=int, default=sized(3, 1), help="each starts all processes anew")
    options.add_argument("--rounds", type=int, default=sized(4, 1))
    options.add_argument("--batches", type=int, default=sized(8, 1), help="different ones of each worker")
    options.add_argument("--times", type=int, default=sized(4, 40), help="that a turn goes through the batches")
    given = options.parse_args()
    counts = doubled(given.most)
    cells: Cells = {(count, number): [] for count in counts for number in counts}
    for turn in range(given.passes):
        for number in counts if turn % 2 else counts[::-1]:
            for count, turns in measured(number, counts, given).items():
                cells[count, number] += turns
    median = {
        cell: Turn(*(statistics.median(each) for each in zip(*turns, strict=True))) for cell, turns in cells.items()
    }
    table(median, counts)
    one = median[1, 1].processor * 1e6
    results = [
        result(
            f"processor a sample, {count} workers on {number} servers against 1 on 1",
            turn.processor * 1e6, one, "µs", AT_LEAST, lower_is_better=True,
        )
        for (count, number), turn in median.items() if (count, number) != (1, 1)
    ]  # fmt: skip
    return 0 if publish("scaling", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

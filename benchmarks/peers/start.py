"""Starts a peer's side of the benchmark of embedding tables; as a program, prints the medians of its cases.

`PYTHONPATH=benchmarks .venv/bin/python -m peers.start stock --keys 1000000 --threads 1,2 --cases lookup_gather`
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from peers.environment import python_of
from sides import Side
from sparse_load import KEYS

BENCHMARKS = Path(__file__).parents[1]
#: OpenMP's waiting threads take the cores from others: FBGEMM's backward pass was twice as slow beside other work.
ENVIRONMENT = {
    "PYTHONPATH": str(BENCHMARKS),
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    "OMP_WAIT_POLICY": "passive",
}
SIDES = ("stock", "tfra", "fbgemm")


def start(name: str, cases: Sequence[str] = (), keys: int = KEYS, threads: int = 1) -> Side:
    """The side of a peer, in an environment of its own; TensorFlow's in the one that runs this."""
    python = sys.executable if name == "stock" else str(python_of(name))
    command = [python, "-m", f"peers.{name}_side", "--keys", str(keys)]
    if cases:
        command += ["--cases", ",".join(cases)]
    return Side(name, command, ENVIRONMENT, threads)


def rounds(side: Side, count: int, calls: int, threads: int) -> dict[str, list[float]]:
    """Seconds of every case, from rounds in which all take their turns."""
    seconds: dict[str, list[float]] = {case: [] for case in side.about["cases"]}
    for _ in range(count):
        for case, so_far in seconds.items():
            so_far += side.measure(case, calls, threads)
    return seconds


def line(case: str, threads: int, seconds: list[float], ids: float) -> str:
    """One case: median, range, and ids a second."""
    median = statistics.median(seconds)
    extent = f"{min(seconds) * 1e3:.2f} to {max(seconds) * 1e3:.2f}"
    return f"{case:26} {threads} threads {median * 1e3:8.2f} ms ({extent}), {ids / median / 1e6:.2f} M ids/s"


def main() -> None:
    """Medians of every case for every number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("--cases", type=lambda names: names.split(","), default=[])
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--threads", type=lambda numbers: [int(number) for number in numbers.split(",")], default=[1])
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with start(given.side, given.cases, given.keys, given.threads[0]) as side:
        print(side.about)
        for threads in given.threads:
            for case, seconds in rounds(side, given.rounds, given.calls, threads).items():
                print(line(case, threads, seconds, side.about["units"][case]), flush=True)
            print(f"resident: {side.about['resident_after'] / 1e9:.2f} GB loaded, {side.resident / 1e9:.2f} GB now")


if __name__ == "__main__":
    main()

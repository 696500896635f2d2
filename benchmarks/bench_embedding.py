"""Embedding tables side by side: afo's engine against TensorFlow's tables and variables, TFRA and FBGEMM.

10 M keys, batches of 4096 x 26 ids by Zipf's law, dimension 16, 1 and 2 threads. All sides hold their tables in
processes of their own; rounds of a few calls take turns, and medians over all calls are compared. The peers'
environments are made on the first run. `--keys 1000000 --rounds 2` is a quick look, whose numbers mean nothing.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from peers.start import ENVIRONMENT, SIDES, start
from report import MISSED, publish, result
from sides import Side
from size import sized
from sparse_load import KEYS

HERE = Path(__file__).parent


class Claim(NamedTuple):
    """One of ours against one of theirs, or the faster of several."""

    name: str
    ours: str
    side: str
    theirs: tuple[str, ...]
    at_least: float


CLAIMS = (
    *(
        Claim(
            f"unique and partition, {parts} parts", f"unique_partition_{parts}", "stock",
            (f"unique_partition_{parts}", f"unique_partition_stitch_{parts}"), 1.5,
        )
        for parts in (4, 8)
    ),
    Claim("lookup against MutableHashTable", "lookup", "stock", ("lookup_mutable",), 6.0),
    Claim("lookup against DenseHashTable", "lookup", "stock", ("lookup_dense_hash",), 1.8),
    Claim("lookup against a gather on a dense variable", "lookup", "stock", ("lookup_gather",), 0.7),
    Claim("Adam against AdaGrad on a dense variable", "apply_adam", "stock", ("apply_adagrad",), 16.0),
    Claim("step with Adam against dense AdaGrad", "step_adam", "stock", ("step_adagrad",), 4.5),
    Claim("step with Adam against MutableHashTable with SGD", "step_adam", "stock", ("step_mutable_sgd",), 11.0),
    Claim("lookup against TFRA", "lookup", "tfra", ("lookup",), 4.0),
    Claim("step with Adam against TFRA", "step_adam", "tfra", ("step_adam",), 10.0),
    Claim("lookup against FBGEMM", "lookup_adagrad", "fbgemm", ("lookup", "lookup_operator"), 0.8),
    Claim(
        "AdaGrad against FBGEMM's row-wise AdaGrad", "apply_adagrad", "fbgemm", ("backward_rowwise_adagrad",), 0.8
    ),
    Claim("new keys against MutableHashTable", "insert", "stock", ("insert_mutable",), 3.0),
    Claim("new keys against touching fresh memory", "insert", "stock", ("touch_memory",), 0.6),
)  # fmt: skip


def own_side(cases: list[str], keys: int, threads: int) -> Side:
    """afo's process."""
    command = [sys.executable, "-m", "engine_side", "--keys", str(keys), "--cases", ",".join(cases)]
    return Side("afo", command, ENVIRONMENT, threads)


def measured(
    claims: list[Claim], keys: int, threads: int, rounds: int, calls: int
) -> dict[tuple[str, str], list[float]]:
    """Seconds of each case by (side, case); each claim's cases right behind one another in every round."""
    seconds: dict[tuple[str, str], list[float]] = {}
    wanted: dict[str, list[str]] = {"afo": list(dict.fromkeys(claim.ours for claim in claims))}
    for claim in claims:
        names = wanted.setdefault(claim.side, [])
        names += [case for case in claim.theirs if case not in names]
    sides = {
        name: own_side(cases, keys, threads) if name == "afo" else start(name, cases, keys, threads)
        for name, cases in wanted.items()
    }
    try:
        for _ in range(rounds):
            for claim in claims:
                for name, case in [("afo", claim.ours), *((claim.side, case) for case in claim.theirs)]:
                    seconds.setdefault((name, case), []).extend(sides[name].measure(case, calls))
        memory(sides)
    finally:
        for side in sides.values():
            side.close()
    return seconds


def memory(sides: dict[str, Side]) -> None:
    """What each process holds."""
    for name, side in sides.items():
        about = side.about
        held = (about["resident_after"] - about["resident_before"]) / 1e9
        print(f"  {name}: {held:.2f} GB for its tables of {about['keys']:,} keys; {about['versions']}", flush=True)


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=sized(KEYS, 20_000))
    parser.add_argument("--rounds", type=int, default=sized(7, 1))
    parser.add_argument("--calls", type=int, default=sized(8, 1))
    parser.add_argument(
        "--threads", type=lambda numbers: [int(number) for number in numbers.split(",")], default=sized([1, 2], [1])
    )
    parser.add_argument("--sides", type=lambda names: names.split(","), default=sized([*SIDES], ["stock"]))
    given = parser.parse_args()
    results = []
    claims = [claim for claim in CLAIMS if claim.side in given.sides]
    for threads in given.threads:
        seconds = measured(claims, given.keys, threads, given.rounds, given.calls)
        for claim in claims:
            ours = statistics.median(seconds["afo", claim.ours])
            theirs = min(statistics.median(seconds[claim.side, case]) for case in claim.theirs)
            name = f"{claim.name}, {threads} thread{'s' * (threads > 1)}"
            results.append(result(name, ours * 1e3, theirs * 1e3, "ms", claim.at_least, lower_is_better=True))
    sys.exit(0 if publish("embedding", results) else MISSED)


if __name__ == "__main__":
    main()

"""Whether what is faster or smaller is as good: AUC and log loss of paired jobs.

Each pair is two jobs on this machine with one seed over the same synthetic clicks, whose best AUC is known: 2 parameter
servers, 2 workers that do not wait for each other, the data once. They differ in one thing: hash tables or dense ones
(both hash a feature into the same buckets, so the models are equal; where rows lie, what they begin with and who
updates them is not), layers in bfloat16 or float32, rows in bfloat16 or float32 on the network, hash tables with a
filter of their keys or without, rows that are evicted or stay, or an embedding pipeline or none. The order within a
pair takes turns. `--pairs 2 --train 50000` is a quick look. The claim is that the 95 % interval of the mean difference
is inside of 0.001.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from report import MISSED, publish, result
from size import sized

ROOT = Path(__file__).parents[1]
MARGIN = 0.001
#: 97.5 % quantile of Student's t by degrees of freedom, from 1.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)


class Compared(NamedTuple):
    """A key of the job, the value in question, and the one that it is held against."""

    key: str
    ours: str
    theirs: str
    #: The same on both sides.
    more: tuple[str, ...] = ()


COMPARED = {
    "storage": Compared("model.embedding.storage", "hash_table", "dense"),
    "precision": Compared("model.precision", "bfloat16", "float32"),
    "wire": Compared("model.embedding.wire", "bfloat16", "float32"),
    "pipeline": Compared("train.pipeline", "1", "0"),
    "pipeline_2": Compared("train.pipeline", "2", "0"),
    "counter": Compared("model.embedding.filter.min_count", "2", "1"),
    "bloom": Compared("model.embedding.filter", "{min_count: 2, max_element_size: 100000}", "{}"),
    "chance": Compared("model.embedding.filter.probability", "0.5", "1.0"),
    # Of some 730 steps in some 12 s; a tenth to a fifth of all rows goes.
    "unused_steps": Compared("model.embedding.evict.unused_steps", "400", "0", ("checkpoint.every=5s",)),
    "unused_time": Compared("model.embedding.evict.unused_time", "8s", "1d", ("checkpoint.every=2s",)),
    "l2_weight": Compared("model.embedding.evict.l2_weight", "0.002", "0", ("checkpoint.every=2s",)),
    # Rows of the largest tables: 25,700.
    "capacity": Compared("model.embedding.evict.capacity", "20000", "0", ("checkpoint.every=2s",)),
}
JOB_S = 900


def trained(directory: Path, records: int, settings: list[str], seed: int, buckets: int) -> dict[str, Any]:
    """What `afo demo --json` says of one job."""
    settings = [
        *settings,
        f"model.embedding.hash_buckets={buckets}",
        f"model.wide.cross_buckets={buckets}",
        f"data.shuffle.seed={seed}",
    ]
    command = [sys.executable, "-m", "afo_client", "demo", "--dir", str(directory / "demo"), "--again", "--json"]
    command += ["--job", str(ROOT / "conf" / "jobs" / "demo.yaml"), "--train", str(records)]
    command += [word for setting in settings for word in ("--set", setting)]
    homes = {"AFO_STATE_DIR": str(directory / "state"), "AFO_JOBS_ROOT": str(directory / "jobs")}
    done = subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, timeout=JOB_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def interval(differences: list[float]) -> tuple[float, float, float]:
    """Mean of the differences and its 95 % confidence interval."""
    mean = statistics.mean(differences)
    half = T975[len(differences) - 2] * statistics.stdev(differences) / math.sqrt(len(differences))
    return mean, mean - half, mean + half


def pairs(
    count: int, records: int, buckets: int, what: Compared
) -> tuple[list[dict[str, dict[str, float]]], dict[str, float]]:
    """(metrics by value of each pair, the best that can be reached)."""
    found: list[dict[str, dict[str, float]]] = []
    best: dict[str, float] = {}
    values = (what.ours, what.theirs)
    with tempfile.TemporaryDirectory(prefix="afo-quality-") as scratch:
        for seed in range(1, count + 1):
            order = values if seed % 2 else values[::-1]
            said = {
                each: trained(Path(scratch), records, [f"{what.key}={each}", *what.more], seed, buckets)
                for each in order
            }
            best = said[what.theirs]["best"]
            found.append({each: answer["verdict"]["metrics"] for each, answer in said.items()})
            words = [
                f"{each} AUC {found[-1][each]['auc']:.5f}, log loss {found[-1][each]['log_loss']:.5f}"
                for each in values
            ]
            print(f"seed {seed}: {'; '.join(words)}", flush=True)
    return found, best


def compared(what: str, given: argparse.Namespace) -> dict[str, object]:
    """All pairs of one comparison, and the claim."""
    key, ours, theirs, _ = COMPARED[what]
    found, best = pairs(given.pairs, given.train, given.buckets, COMPARED[what])
    print(f"best reachable: AUC {best['auc']:.5f}, log loss {best['log_loss']:.5f}")
    worst: dict[str, float] = {}
    for name in ("auc", "log_loss"):
        mean, low, high = interval([each[ours][name] - each[theirs][name] for each in found])
        for each in (ours, theirs):
            values = [pair[each][name] for pair in found]
            print(f"{name} with {each}: mean {statistics.mean(values):.5f}, {min(values):.5f} to {max(values):.5f}")
        print(f"{name}, {ours} less {theirs}: {mean:+.5f}, 95 % interval {low:+.5f} to {high:+.5f}")
        worst[name] = max(abs(low), abs(high))
    name = f"AUC with {key}: {ours} as with {theirs}"
    return result(name, max(worst["auc"], 1e-9), MARGIN, "AUC", 1.0, lower_is_better=True)


def main() -> int:
    """Run all pairs; 0 if the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=list(COMPARED), action="append", help="all of them unless given")
    parser.add_argument("--pairs", type=int, default=sized(10, 2))
    parser.add_argument("--train", type=int, default=sized(1_500_000, 2000), help="training records")
    parser.add_argument("--buckets", type=int, default=100_000, help="of each feature and cross, on both sides")
    given = parser.parse_args()
    results = [compared(what, given) for what in given.what or sized([*COMPARED], ["capacity"])]
    return 0 if publish("quality", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

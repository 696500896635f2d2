"""Whether a model on hash tables is as good as one on dense tables: AUC and log loss of paired jobs.

Each pair is two jobs on this machine with one seed over the same synthetic clicks, whose best AUC is known: 2 parameter
servers, 2 workers that do not wait for each other, the data once. Both hash a feature into the same buckets, so the
models are equal; what differs is where rows lie, what they begin with, and who updates them. The order within a pair
takes turns. `--pairs 2 --train 50000` is a quick look. The claim is that the 95 % interval of the mean difference is
inside of 0.001.
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
from typing import Any

from report import publish, result

ROOT = Path(__file__).parents[1]
MARGIN = 0.001
#: 97.5 % quantile of Student's t by degrees of freedom, from 1.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
STORAGES = ("hash_table", "dense")
JOB_S = 900


def trained(directory: Path, records: int, storage: str, seed: int, buckets: int) -> dict[str, Any]:
    """What `afo demo --json` says of one job."""
    settings = {
        "model.embedding.storage": storage,
        "model.embedding.hash_buckets": buckets,
        "model.wide.cross_buckets": buckets,
        "data.shuffle.seed": seed,
    }
    command = [sys.executable, "-m", "afo_client", "demo", "--dir", str(directory / "demo"), "--again", "--json"]
    command += ["--job", str(ROOT / "conf" / "jobs" / "demo.yaml"), "--train", str(records)]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
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


def pairs(count: int, records: int, buckets: int) -> tuple[list[dict[str, dict[str, float]]], dict[str, float]]:
    """(metrics by storage of each pair, the best that can be reached)."""
    found: list[dict[str, dict[str, float]]] = []
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="afo-quality-") as scratch:
        for seed in range(1, count + 1):
            order = STORAGES if seed % 2 else STORAGES[::-1]
            said = {each: trained(Path(scratch), records, each, seed, buckets) for each in order}
            best = said["dense"]["best"]
            found.append({each: answer["verdict"]["metrics"] for each, answer in said.items()})
            print(
                f"seed {seed}: "
                + ", ".join(f"{each} AUC {found[-1][each]['auc']:.5f}" for each in STORAGES)
                + f", log loss {found[-1]['hash_table']['log_loss']:.5f} and {found[-1]['dense']['log_loss']:.5f}",
                flush=True,
            )
    return found, best


def main() -> None:
    """Run all pairs, print the differences, write build/bench/quality.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--train", type=int, default=1_500_000, help="training records")
    parser.add_argument("--buckets", type=int, default=100_000, help="of each feature and cross, on both sides")
    given = parser.parse_args()
    found, best = pairs(given.pairs, given.train, given.buckets)
    print(f"best reachable: AUC {best['auc']:.5f}, log loss {best['log_loss']:.5f}")
    for name in ("auc", "log_loss"):
        mean, low, high = interval([each["hash_table"][name] - each["dense"][name] for each in found])
        for each in STORAGES:
            values = [pair[each][name] for pair in found]
            print(f"{name} on {each}: mean {statistics.mean(values):.5f}, {min(values):.5f} to {max(values):.5f}")
        print(f"{name}, hash table less dense: {mean:+.5f}, 95 % interval {low:+.5f} to {high:+.5f}")
        if name == "auc":
            worst = max(abs(low), abs(high))
    publish("quality", [result("AUC as on dense tables", worst, MARGIN, "AUC", 1.0, lower_is_better=True)])


if __name__ == "__main__":
    main()

"""What bfloat16 and int8 rows cost a served model: AUC and log loss against float32, of the same trained models.

Each seed is one job on this machine over synthetic clicks (`bench_quality`); its last checkpoint is then measured on
the held-out records with its embedding tables kept in each way (`afo evaluate --rows`). The training is shared, so what
differs is the rows alone. The claim is that the 95 % interval of the mean difference in AUC is inside of 0.0001.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench_quality import JOB_S, interval, trained
from report import MISSED, publish, result
from size import sized

from afo.job import ROW_TYPES

MARGIN = 0.0001
METRICS = ("auc", "log_loss")


def measured(directory: Path, rows: str) -> dict[str, float]:
    """The metrics of the job that ran last in `directory`, its tables kept as `rows`."""
    homes = {"AFO_STATE_DIR": str(directory / "state"), "AFO_JOBS_ROOT": str(directory / "jobs")}
    command = [sys.executable, "-m", "afo_client", "evaluate", "--rows", rows, "--json"]
    done = subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, timeout=JOB_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    metrics: dict[str, float] = json.loads(done.stdout)["metrics"]
    return metrics


def by_rows(seed: int, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Metrics of one trained model by how its rows are kept."""
    with tempfile.TemporaryDirectory(prefix="afo-rows-") as scratch:
        settings = [f"model.embedding.dim={given.dim}"]
        trained(Path(scratch), given.train, settings, seed, given.buckets)
        found = {rows: measured(Path(scratch), rows) for rows in ROW_TYPES}
    for rows, metrics in found.items():
        print(f"seed {seed}, {rows}: AUC {metrics['auc']:.6f}, log loss {metrics['log_loss']:.6f}", flush=True)
    return found


def claim(rows: str, found: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Of `rows` against float32, printed with the spread."""
    worst: dict[str, float] = {}
    for name in METRICS:
        differences = [each[rows][name] - each["float32"][name] for each in found]
        mean, low, high = interval(differences)
        spread = f"{min(differences):+.6f} to {max(differences):+.6f}, median {statistics.median(differences):+.6f}"
        print(f"{name}, {rows} less float32: mean {mean:+.6f}, 95 % interval {low:+.6f} to {high:+.6f}; {spread}")
        worst[name] = max(abs(low), abs(high))
    # The interval itself is never exactly 0 long, but may be so small that it prints as 0.
    return result(
        f"AUC with rows of {rows} as with float32", max(worst["auc"], 1e-9), MARGIN, "AUC", 1.0, lower_is_better=True
    )


def main() -> None:
    """Train, measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=sized(5, 2))
    parser.add_argument("--train", type=int, default=sized(500_000, 2000), help="training records")
    parser.add_argument("--dim", type=int, default=8, help="of an embedding")
    parser.add_argument("--buckets", type=int, default=100_000, help="of each feature and cross")
    given = parser.parse_args()
    found = [by_rows(seed, given) for seed in range(1, given.seeds + 1)]
    results = [claim(rows, found) for rows in ROW_TYPES if rows != "float32"]
    sys.exit(0 if publish("rows", results) else MISSED)


if __name__ == "__main__":
    main()

"""What `security.tunnel` costs a job: the demo job on this machine with it and without, in turn.

Two parameter servers and two workers in `--runtime local`, so every byte between them goes through loopback twice more
and is encrypted and decrypted on the same cores that train: more than it costs where each task has a machine. Samples
a second of training time as the job itself reports them, and core hours a million samples of all its processes.
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

from report import MISSED, publish, result
from size import sized

AFO = [sys.executable, "-m", "afo_client"]
JOB_FILE = Path(__file__).parent.parent / "conf" / "jobs" / "demo.yaml"
AT_LEAST = 0.5


def afo(folder: str, *arguments: str) -> str:
    """A command's output."""
    places = {"AFO_STATE_DIR": f"{folder}/state", "AFO_JOBS_ROOT": f"{folder}/jobs"}
    done = subprocess.run(
        [*AFO, *arguments], env={**os.environ, **places}, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def trained(folder: str, *, tunnel: bool) -> dict[str, Any]:
    """A job's answer."""
    settings = (f"security.tunnel={str(tunnel).lower()}", "roles.ps.instances=2", "roles.worker.instances=2")
    options = [f"--set={setting}" for setting in settings]
    answer: dict[str, Any] = json.loads(
        afo(
            folder,
            "submit",
            str(JOB_FILE),
            "--runtime=local",
            f"--var=data={folder}/clicks",
            "--wait",
            "--json",
            *options,
        )
    )
    return answer


def main() -> int:
    """Exit code 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=sized(600_000, 2000))
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    given = parser.parse_args()
    rates: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        afo(folder, "data", "synth", f"{folder}/clicks", "--train", str(given.samples), "--eval", "5000")
        for number in range(given.rounds):
            for tunnel in (False, True) if number % 2 else (True, False):
                answer = trained(folder, tunnel=tunnel)
                rates[tunnel].append(answer["samples"] / answer["train_seconds"])
                auc = answer["metrics"]["auc"]
                print(
                    f"{'tunnel' if tunnel else 'plain'}: {rates[tunnel][-1]:.0f} samples/s, AUC {auc:.4f}", flush=True
                )
    medians = {tunnel: statistics.median(found) for tunnel, found in rates.items()}
    claim = result(
        "a job's samples a second through the tunnel", medians[True], medians[False], "1/s", AT_LEAST,
        lower_is_better=False,
    )  # fmt: skip
    return 0 if publish("tunnel", [claim]) else MISSED


if __name__ == "__main__":
    sys.exit(main())

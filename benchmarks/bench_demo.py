"""The whole demo job, of real processes on this machine, against another version of afo.

`--other DIRECTORY` is a checkout of that version with its `.venv` (`git worktree add`, `make install`); without it
there is nothing to compare. Both train on the same files in turn, with another seed of the order in each round.
Compared is the time from the first step to the last applied file; AUC and log loss are printed with their spread, for
a job that is faster and worse has won nothing.
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

PROJECT = Path(__file__).parent.parent
FEW = ("--train", "2000")


def trained(checkout: Path, data: str, seed: int) -> dict[str, Any]:
    """The verdict of one job."""
    words = ("demo", "--dir", data, "--again", "--json", "--set", f"data.shuffle.seed={seed}", *sized((), FEW))
    python = sys.executable if checkout == PROJECT else str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "afo_client", *words]
    done = subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True)
    verdict: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["verdict"]
    return verdict


def told(what: str, ours: list[float], theirs: list[float]) -> None:
    """Ours less theirs, round by round."""
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    mean, least, most = statistics.mean(differences), min(differences), max(differences)
    print(f"{what}, ours less theirs: {mean:+.5f} ({least:+.5f} to {most:+.5f}, {len(differences)} seeds)")


def main() -> int:
    """0 if the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, default=sized(None, PROJECT))
    parser.add_argument("--rounds", type=int, default=sized(5, 1))
    arguments = parser.parse_args()
    if arguments.other is None:
        print("no `--other DIRECTORY` was given: nothing to compare")
        return 0
    rounds: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as data:
        for seed in range(1, arguments.rounds + 1):
            sides = [trained(checkout, data, seed) for checkout in (PROJECT, arguments.other.resolve())]
            rounds.append((sides[0], sides[1]))
            print(
                f"seed {seed}: {[round(each['train_seconds'], 2) for each in sides]} s, load {os.getloadavg()[0]:.1f}"
            )
    for metric in ("auc", "log_loss"):
        told(metric, *([each[side]["metrics"][metric] for each in rounds] for side in (0, 1)))
    medians = [statistics.median(each[side]["train_seconds"] for each in rounds) for side in (0, 1)]
    claim = result("whole demo job, against the other version", *medians, "s", 1.2, lower_is_better=True)
    return 0 if publish("demo", [claim]) else MISSED


if __name__ == "__main__":
    sys.exit(main())

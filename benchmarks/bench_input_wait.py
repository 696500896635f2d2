"""How long training waits for input: the share of the time of all steps, in whole jobs of real processes.

`conf/jobs/demo.yaml`, and `conf/jobs/adult-yarn.yaml` on this machine, in turn; the share is the job's own, over all of
its workers from their first batch on, and so is what it says of the bound. At most 5 % of the steps' time is wanted.
Adult needs `--adult`, a directory with `adult.data` and `adult.test` (docs/quickstart.md); else the demo runs alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import MISSED, publish, result
from size import sized

from afo.protocol.input_wait import NOTABLE

PROJECT = Path(__file__).parent.parent
FEW = ("--train", "2000")
NAMES = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,gender,capital_gain,"
    "capital_loss,hours_per_week,native_country,income"
)


def afo(*arguments: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "afo_client", *arguments]
    return subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout


def summary(*arguments: str) -> dict[str, Any]:
    """What the command says of a job."""
    found: dict[str, Any] = json.loads(afo(*arguments))
    return found


def demo(scratch: str) -> dict[str, Any]:
    """The job's summary."""
    found = json.loads(afo("demo", "--dir", f"{scratch}/demo", "--again", "--json", *sized((), FEW)))
    return summary("status", found["job_id"], "--json")


def adult(scratch: str) -> dict[str, Any]:
    """The job's summary."""
    job = ("conf/jobs/adult-yarn.yaml", "--var", f"data={scratch}/adult", "--runtime", "local")
    return summary("submit", *job, "--wait", "--json")


def converted(raw: Path, scratch: str) -> None:
    """Adult as TFRecord files."""
    for name, part, files, more in (("adult.data", "train", 8, ()), ("adult.test", "test", 2, ("--skip-lines", "1"))):
        afo(
            "data", "convert", str(raw / name), "--schema", "conf/schemas/adult.yaml",
            "--out", f"{scratch}/adult/{part}", "--files", str(files), "--columns", NAMES, "--strip", "--missing", "?",
            "--positive", ">50K." if more else ">50K", *more,
        )  # fmt: skip


def main() -> int:
    """Run each job `--rounds` times; 0 if the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    parser.add_argument("--adult", type=Path)
    arguments = parser.parse_args()
    jobs: dict[str, Callable[[str], dict[str, Any]]] = {"demo": demo, **({"adult": adult} if arguments.adult else {})}
    shares: dict[str, list[float]] = {name: [] for name in jobs}
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.adult:
            converted(arguments.adult, scratch)
        for _ in range(arguments.rounds):
            for name, job in jobs.items():
                found = job(scratch)
                shares[name].append(found["input_wait"])
                print(f"{name}: input wait {found['input_wait']:.1%}, bound {found['input_bound']}, "
                      f"{found['samples_per_s']:,.0f} samples/s, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    results = [
        result(f"input wait, {name}", statistics.median(each), NOTABLE, "of the steps' time", 1.0, lower_is_better=True)
        for name, each in shares.items()
    ]
    return 0 if publish("input_wait", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

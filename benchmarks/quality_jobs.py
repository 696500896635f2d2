"""What the benchmarks of a model's quality share: whole jobs by command, their data, and metrics of several seeds."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from size import sized

ROOT = Path(__file__).parents[1]
JOBS = ROOT / "conf" / "jobs"
JOB_S = 900
METRICS = ("auc", "log_loss", "calibration")
#: Columns of adult.data; the last one is the label.
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "gender", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip

Metrics = dict[str, float]
T = TypeVar("T")


def arguments(doc: str | None, seeds: int = 10) -> argparse.ArgumentParser:
    """`--adult` and `--seeds`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("AFO_TEST_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--adult", type=Path, default=data / "adult", metavar="DIRECTORY")
    parser.add_argument("--seeds", type=int, default=sized(seeds, 1))
    return parser


def has_adult(folder: Path) -> bool:
    """Whether Adult is there; what is left out for it is printed."""
    file = folder / "adult.data"
    if not file.is_file():
        print(f"adult is left out: there is no {file}")
    return file.is_file()


def afo(scratch: Path, *words: str) -> str:
    """What the command prints. Raises SystemExit with its errors."""
    homes = {"AFO_STATE_DIR": str(scratch / "state"), "AFO_JOBS_ROOT": str(scratch / "jobs")}
    command = [sys.executable, "-m", "afo_client", *words]
    done = subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, timeout=JOB_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def metrics_of(answer: str) -> Metrics:
    """Of a command's `--json`."""
    metrics = json.loads(answer)["metrics"]
    return {name: metrics[name] for name in METRICS}


def convert_adult(scratch: Path, source: Path) -> Path:
    """Census income as a directory of TFRecords, made as docs/quickstart.md does."""
    common = ["--schema", str(ROOT / "conf/schemas/adult.yaml"), "--columns", ",".join(ADULT_COLUMNS), "--strip"]
    data = scratch / "adult"
    for name, rest in (
        ("adult.data", ["--out", f"{data}/train", "--files", "8", "--positive", ">50K"]),
        ("adult.test", ["--out", f"{data}/test", "--files", "2", "--positive", ">50K.", "--skip-lines", "1"]),
    ):
        afo(scratch, "data", "convert", str(source / name), *common, "--missing", "?", *rest)
    return data


def make_clicks(scratch: Path, records: int) -> Path:
    """A directory of synthetic clicks, those of `afo demo`."""
    data = scratch / "clicks"
    afo(scratch, "data", "synth", str(data), "--train", str(records), "--eval", str(max(1000, records // 8)))
    return data


def of_seeds(function: Callable[[int], T], seeds: int, at_once: int) -> list[T]:
    """What the function makes of seed 1, 2, …; so many of them at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(function, range(1, seeds + 1)))


def summary(metrics: Sequence[Metrics]) -> str:
    """Mean, lowest and highest of each metric, and of how many seeds."""
    columns = {name: [each[name] for each in metrics] for name in METRICS}
    words = (f"{name} {statistics.mean(v):.5f} ({min(v):.5f} to {max(v):.5f})" for name, v in columns.items())
    return f"{len(metrics)} seeds: {'; '.join(words)}"

"""A job as `afo init` writes it beside logistic regression on the same rows: AUC, log loss, calibration.

The first 1,000 and 10,000 rows of Adult (`--adult DIRECTORY`; else `$AFO_TEST_DATA/adult`) and all of them, measured on
adult.test. Logistic regression has its numbers standardised, its words one-hot, and its default penalty, as its users
would begin. The job is what a newcomer has who changes nothing: `afo data convert`, `afo init`, `afo submit`.

The claims: of no number of rows is the mean AUC lower or the mean log loss higher.
"""

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_cooldown import METRICS, ROOT, Metrics, afo
from peers.environment import python_of
from report import MISSED, publish, result
from size import sized

LABEL, POSITIVE = "income", ">50K"
NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
WORDS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "gender", "native_country"]
#: As in the file.
COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "gender", "capital_gain", "capital_loss", "hours_per_week", "native_country", LABEL,
]  # fmt: skip
LINEAR_S = 600

Row = list[str]


def rows_of(file: Path) -> Iterator[Row]:
    """Cells, without blanks around them; the test file's labels end with a dot."""
    with file.open(newline="") as lines:
        for cells in csv.reader(lines, skipinitialspace=True):
            if len(cells) == len(COLUMNS):
                yield [*cells[:-1], cells[-1].rstrip(".")]


def made_up(count: int) -> Iterator[Row]:
    """Rows of the same columns, for the smallest numbers."""
    draw = random.Random(1)
    for _ in range(count):
        row = {name: str(draw.randrange(90)) for name in NUMBERS} | {name: draw.choice("abc") for name in WORDS}
        yield [*(row[name] for name in COLUMNS[:-1]), POSITIVE if draw.random() < int(row["age"]) / 90 else "<=50K"]


def write(file: Path, rows: list[Row]) -> Path:
    """A CSV file with a header."""
    with file.open("w", newline="") as lines:
        csv.writer(lines).writerows([COLUMNS, *rows])
    return file


def ours(scratch: Path, train: Path, test: Path, seeds: int) -> list[Metrics]:
    """Of a job as `afo init` writes it, and other orders of its records."""
    folder = scratch / train.stem
    given = ["--schema", str(ROOT / "conf/schemas/adult.yaml"), "--missing", "?", "--positive", POSITIVE]
    for name, source in (("train", train), ("test", test)):
        afo(scratch, "data", "convert", str(source), *given, "--out", str(folder / name), "--files", "2")
    globs = ["--train", f"{folder}/train/*.tfrecord", "--eval", f"{folder}/test/*.tfrecord"]
    afo(scratch, "init", str(folder / "job"), *globs, "--label", LABEL)
    words = ["submit", str(folder / "job" / "job.yaml"), "--runtime", "local", "--json"]
    return [
        {name: json.loads(answer)["metrics"][name] for name in METRICS}
        for seed in range(1, seeds + 1)
        for answer in [afo(scratch, *words, "--set", f"data.shuffle.seed={seed}")]
    ]


def theirs(train: Path, test: Path) -> Metrics:
    """Of logistic regression, which has no seed."""
    task = {"train": str(train), "test": str(test), "label": LABEL, "positive": POSITIVE}
    words = json.dumps(task | {"numbers": NUMBERS, "words": WORDS})
    command = [str(python_of("linear")), str(ROOT / "benchmarks/peers/linear_side.py"), words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LINEAR_S, check=True)
    found: Metrics = json.loads(done.stdout)
    return found


def compared(count: int, job: list[Metrics], linear: Metrics) -> list[dict[str, object]]:
    """What is claimed of so many rows."""
    for metric in METRICS:
        values = [each[metric] for each in job]
        span = f"{statistics.mean(values):.5f} ({min(values):.5f} to {max(values):.5f}, {len(values)} seeds)"
        print(f"{count:,} rows, {metric}: {span}; logistic regression {linear[metric]:.5f}", flush=True)
    auc, loss = (statistics.mean(each[metric] for each in job) for metric in ("auc", "log_loss"))
    return [
        result(f"{count:,} rows: AUC", auc, linear["auc"], "AUC", 1.0, lower_is_better=False),
        result(f"{count:,} rows: log loss", loss, linear["log_loss"], "log loss", 1.0, lower_is_better=True),
    ]


def main() -> int:
    """0 if the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("AFO_TEST_DATA") or ROOT.parent / "shared" / "data") / "adult"
    parser.add_argument("--adult", type=Path, default=default)
    parser.add_argument("--seeds", type=int, default=sized(5, 1))
    given = parser.parse_args()
    sources = sized([given.adult / "adult.data", given.adult / "adult.test"], [])
    train, test = (list(rows_of(each)) for each in sources) if sources else (list(made_up(400)), list(made_up(100)))
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="afo-init-") as folder:
        scratch = Path(folder)
        tested = write(scratch / "test.csv", test)
        for count in sized([1000, 10_000, len(train)], [len(train)]):
            file = write(scratch / f"train-{count}.csv", train[:count])
            results += compared(count, ours(scratch, file, tested, given.seeds), theirs(file, tested))
    return 0 if publish("init", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

"""A job as `afo init` writes it beside logistic regression on the same rows: AUC, log loss, calibration.

The first 1,000 and 10,000 rows of Adult (`--adult DIRECTORY`; else `$AFO_TEST_DATA/adult`) and all of them, measured on
adult.test. Logistic regression has its numbers standardised, its words one-hot, and its default penalty, as its users
would begin. The job is what a newcomer has who changes nothing: `afo data convert`, `afo init`, `afo submit`.

The claims: of no number of rows is the mean AUC lower or the mean log loss higher.
"""

import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from peers.environment import python_of
from quality_jobs import ADULT_COLUMNS, METRICS, ROOT, Metrics, afo, arguments, has_adult, metrics_of, summary
from report import MISSED, publish, result
from size import SMALLEST, sized

LABEL, POSITIVE = ADULT_COLUMNS[-1], ">50K"
NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
WORDS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "gender", "native_country"]
LINEAR_S = 600

Row = list[str]


def rows_of(file: Path) -> Iterator[Row]:
    """Cells, without blanks around them; the test file's labels end with a dot."""
    with file.open(newline="") as lines:
        for cells in csv.reader(lines, skipinitialspace=True):
            if len(cells) == len(ADULT_COLUMNS):
                yield [*cells[:-1], cells[-1].rstrip(".")]


def made_up(count: int) -> Iterator[Row]:
    """Rows of the same columns, for the smallest numbers."""
    draw = random.Random(1)
    for _ in range(count):
        row = {name: str(draw.randrange(90)) for name in NUMBERS} | {name: draw.choice("abc") for name in WORDS}
        label = POSITIVE if draw.random() < int(row["age"]) / 90 else "<=50K"
        yield [*(row[name] for name in ADULT_COLUMNS[:-1]), label]


def write(file: Path, rows: list[Row]) -> Path:
    """A CSV file with a header."""
    with file.open("w", newline="") as lines:
        csv.writer(lines).writerows([ADULT_COLUMNS, *rows])
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
    return [metrics_of(afo(scratch, *words, "--set", f"data.shuffle.seed={seed}")) for seed in range(1, seeds + 1)]


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
    theirs = "; ".join(f"{metric} {linear[metric]:.5f}" for metric in METRICS)
    print(f"{count:,} rows, {summary(job)}; logistic regression: {theirs}", flush=True)
    auc, loss = (statistics.mean(each[metric] for each in job) for metric in ("auc", "log_loss"))
    return [
        result(f"{count:,} rows: AUC", auc, linear["auc"], "AUC", 1.0, lower_is_better=False),
        result(f"{count:,} rows: log loss", loss, linear["log_loss"], "log loss", 1.0, lower_is_better=True),
    ]


def main() -> int:
    """0 if the claims hold."""
    given = arguments(__doc__, seeds=5).parse_args()
    if not SMALLEST and not has_adult(given.adult):
        return 0 if publish("init", []) else MISSED
    if SMALLEST:
        train, test = list(made_up(400)), list(made_up(100))
    else:
        train, test = (list(rows_of(given.adult / name)) for name in ("adult.data", "adult.test"))
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

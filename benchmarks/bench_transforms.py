"""What `transform`, `buckets`, `clip` and `missing_indicator` of a schema are worth: AUC, log loss and calibration.

The same records by schemas that say more and more of their numbers, a job of each and of every seed, in turn:

    raw         `kind: dense` alone, so standardised by the built-in model
    log1p       `transform: log1p` as well
    indicator   … and `missing_indicator: true`
    buckets     … and `buckets` at the deciles of the training values

    tailed      samples of a known probability: log odds that are linear in the logarithms of eight numbers with long
                tails, and in which of them are missing
    adult       census income (`--adult DIRECTORY` of adult.data and adult.test; else `$AFO_TEST_DATA/adult`)

The claims, of `tailed`: with all of it the mean AUC is not lower than of raw numbers, and the mean log loss not higher.
AUC of the true probabilities, which nothing can exceed but by chance, is printed. Of `adult` nothing is claimed: its
numbers that have a tail are nine tenths zeros, and `log1p` of all numbers costs AUC there.
"""

import csv
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml
from quality_jobs import ADULT_COLUMNS, Metrics, afo, arguments, has_adult, metrics_of, summary
from report import MISSED, publish, result
from size import sized

from afo.data.synthetic.teacher import sigmoid

Numbers = npt.NDArray[np.float64]
#: Keys that each schema gives its numbers, besides `buckets`.
SCHEMAS: dict[str, dict[str, object]] = {
    "raw": {},
    "log1p": {"transform": "log1p"},
    "indicator": {"transform": "log1p", "missing_indicator": True},
    "buckets": {"transform": "log1p", "missing_indicator": True},
}
TAILED = [f"n{number}" for number in range(8)]
ADULT_NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
ADULT_WORDS = [name for name in ADULT_COLUMNS[:-1] if name not in ADULT_NUMBERS]
#: Share of the values of `tailed` that are missing.
MISSING = 0.2


class Table:
    """Rows of a data set as CSV files: `train` and `test`, with a header, and empty cells for what is missing."""

    def __init__(self, folder: Path, numbers: list[str], words: list[str], positive: str) -> None:
        self.folder, self.numbers, self.words, self.positive = folder, numbers, words, positive
        folder.mkdir()

    def write(self, name: str, rows: list[list[str]]) -> None:
        """The label is the last cell."""
        with (self.folder / f"{name}.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows([[*self.numbers, *self.words, "label"], *rows])

    def deciles(self, number: int) -> list[float]:
        """Of a column of the training rows."""
        with (self.folder / "train.csv").open(newline="") as lines:
            values = [float(row[number]) for row in list(csv.reader(lines))[1:] if row[number]]
        return [float(each) for each in np.unique(np.quantile(values, np.arange(1, 10) / 10))]

    def schema(self, name: str) -> Path:
        """The schema file of this name."""
        dense = [{"name": each, "kind": "dense", **SCHEMAS[name]} for each in self.numbers]
        if name == "buckets":
            dense = [each | {"buckets": self.deciles(number)} for number, each in enumerate(dense)]
        words = [{"name": each, "kind": "string", "hash_buckets": 1000} for each in self.words]
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"label": "label", "sample_id": "sample_id", "features": [*dense, *words]}))
        return file


def tailed(folder: Path, records: int) -> Table:
    """Prints the AUC of the probabilities that the labels were drawn with."""
    table, draw = Table(folder, TAILED, [], "1"), np.random.default_rng(1)
    weights, absent = draw.normal(size=len(TAILED)), draw.normal(size=len(TAILED))
    for name, count in (("train", records), ("test", records // 4)):
        logs = draw.normal(2, 1.5, size=(count, len(TAILED)))
        gone = draw.random(logs.shape) < MISSING
        odds = np.where(gone, absent, 0.5 * weights * (logs - 2)).sum(axis=1) - 1
        label = draw.random(count) < sigmoid(odds)
        values = np.expm1(np.maximum(logs, 0))
        cells = [["" if lost else f"{value:.6g}" for value, lost in zip(*row, strict=True)]
                 for row in zip(values, gone, strict=True)]  # fmt: skip
        table.write(name, [[*row, str(int(each))] for row, each in zip(cells, label, strict=True)])
        if name == "test":
            print(f"tailed: AUC of the true probabilities {auc_of(odds, label):.5f}", flush=True)
    return table


def auc_of(scores: Numbers, label: npt.NDArray[np.bool_]) -> float:
    """The share of pairs that are in order; scores without ties."""
    ranks = np.argsort(np.argsort(scores)) + 1
    positive = int(label.sum())
    above = ranks[label].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(label) - positive)))


def adult(folder: Path, source: Path) -> Table:
    """Columns in another order, the label as it is."""
    table = Table(folder, ADULT_NUMBERS, ADULT_WORDS, ">50K")
    order = [ADULT_COLUMNS.index(name) for name in [*ADULT_NUMBERS, *ADULT_WORDS, ADULT_COLUMNS[-1]]]
    for name, file in (("train", "adult.data"), ("test", "adult.test")):
        with (source / file).open(newline="") as lines:
            rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(ADULT_COLUMNS)]
        table.write(name, [[row[at].rstrip(".").replace("?", "") for at in order] for row in rows])
    return table


def trained(scratch: Path, table: Table, name: str) -> Callable[[int], Metrics]:
    """(seed) → metrics of a job with the schema of this name."""
    schema, folder = table.schema(name), table.folder / name
    for part in ("train", "test"):
        given = ["--schema", str(schema), "--positive", table.positive, "--missing", "", "--files", "2"]
        afo(scratch, "data", "convert", str(table.folder / f"{part}.csv"), *given, "--out", str(folder / part))
    job = {
        "name": name, "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "1 GiB"}, "evaluator": {}},
        "data": {"schema": str(schema), "train": [f"{folder}/train/*.tfrecord"], "eval": [f"{folder}/test/*.tfrecord"],
                 "epochs": sized(8, 1), "batch_size": 256},
    }  # fmt: skip
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    words = ["submit", str(file), "--runtime", "local", "--json"]
    return lambda seed: metrics_of(afo(scratch, *words, "--set", f"data.shuffle.seed={seed}"))


def compared(scratch: Path, name: str, table: Table, seeds: int) -> list[dict[str, object]]:
    """What is claimed of a data set."""
    jobs = {schema: trained(scratch, table, schema) for schema in SCHEMAS}
    found: dict[str, list[Metrics]] = {schema: [] for schema in SCHEMAS}
    for seed in range(1, seeds + 1):
        for schema, train in jobs.items():
            found[schema].append(train(seed))
    for schema, metrics in found.items():
        print(f"{name}, {schema}, {summary(metrics)}", flush=True)
    means = {
        metric: [statistics.mean(each[metric] for each in found[side]) for side in ("buckets", "raw")]
        for metric in ("auc", "log_loss")
    }
    return [
        result(f"{name}: AUC", *means["auc"], "AUC", 1.0, lower_is_better=False),
        result(f"{name}: log loss", *means["log_loss"], "log loss", 1.0, lower_is_better=True),
    ]


def main() -> int:
    """0 if the claims hold."""
    given = arguments(__doc__, seeds=5).parse_args()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="afo-transforms-") as folder:
        scratch = Path(folder)
        results += compared(scratch, "tailed", tailed(scratch / "tailed", sized(60_000, 400)), given.seeds)
        if sized(True, False) and has_adult(given.adult):
            compared(scratch, "adult", adult(scratch / "adult", given.adult), given.seeds)
    return 0 if publish("transforms", results) else MISSED


if __name__ == "__main__":
    sys.exit(main())

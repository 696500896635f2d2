"""`make equivalence`: the models of conf/models on real YARN against the same models in one process of Keras.

Five pairs of runs for each model, a seed each, on the same files for as many epochs. Writes
docs/reports/equivalence-part2.md. Good runs are noted in build/equivalence/COMMIT.jsonl, so an interrupted series goes
on; AFO_EQUIVALENCE_SEEDS (2 to 10) makes it shorter, AFO_EQUIVALENCE_REPORT writes the report elsewhere.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from adult import REPOSITORY, AdultData
from afo import storage
from afo.job import Job
from afo.job.loader import load_job
from afo_client.hadoop import Cluster
from conf_models import MODELS, NAMES, convert_two_labels, is_sequence_model, write_public
from equivalence import Difference, paired
from live_job import LiveJob, afo
from resumable_runs import ResumableRuns, circumstances, reported

SEEDS = range(1, 1 + int(os.environ.get("AFO_EQUIVALENCE_SEEDS", "5")))
REPORT = Path(os.environ.get("AFO_EQUIVALENCE_REPORT") or REPOSITORY / "docs" / "reports" / "equivalence-part2.md")
MARGIN = 0.002
PLAIN_KERAS = REPOSITORY / "tests" / "support" / "standalone" / "plain_keras.py"
Side = Literal["keras", "afo"]


@dataclass(frozen=True)
class Run:
    """One training, and the exact AUC of each label on the evaluation files."""

    model: str
    side: Side
    seed: int
    aucs: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Places:
    """The same files on this machine and in HDFS: a directory for each data set."""

    local: Path
    url: str
    jobs_root: str

    def data_of(self, model: str, side: Side) -> str:
        """The variable `data` of a model's job file."""
        folder = "behaviour" if is_sequence_model(model) else "adult"
        return str(self.local / folder) if side == "keras" else f"{self.url}/{folder}"


@pytest.fixture(scope="module")
def places(adult: AdultData, adult_source: Path, hadoop: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Both data sets as docs/own-models.md makes them."""
    local, url = tmp_path_factory.mktemp("equivalence"), f"{hadoop.hdfs_uri}/data/equivalence"
    convert_two_labels(adult_source, local, str(local / "adult"))
    done = afo("data", "behaviour", str(local / "behaviour"), "--train", "300000")
    assert done.returncode == 0, done.stderr
    for file in sorted(local.rglob("*.tfrecord")):
        storage.upload(str(file), f"{url}/{file.relative_to(local)}")
    return Places(local, url, adult.jobs_root)


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report after the last model, or the last one that an error let run."""
    with reported("equivalence", Run, REPORT, report) as noted:
        yield noted


def job_of(model: str, data: str) -> Job:
    """The model's job file."""
    return load_job(MODELS / model / "job.yaml", variables={"data": data})


def by_keras(model: str, seed: int, places: Places) -> Run:
    """The public code of a model in a process that imports nothing of afo."""
    job, began = job_of(model, places.data_of(model, "keras")), time.monotonic()
    public = write_public(model, places.local)
    command = [sys.executable, str(PLAIN_KERAS), str(public), job.data.train[0], job.data.eval[0]]
    command += [str(each) for each in (seed, job.data.epochs, job.data.batch_size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["afo"] == []
    aucs = dict(zip(job.data.labels, answer["aucs"], strict=True))
    return Run(model, "keras", seed, aucs, time.monotonic() - began)


def by_afo(model: str, seed: int, places: Places) -> Run:
    """model.py by its job file, on YARN."""
    data = places.data_of(model, "afo")
    settings = (f"name={model} seed {seed}", f"data.shuffle.seed={seed}")
    options = [option for setting in settings for option in ("--set", setting)]
    file = MODELS / model / "job.yaml"
    job = LiveJob.submit(file, places.jobs_root, "--runtime", "yarn", "--var", f"data={data}", *options)
    verdict = job.verdict(1500)
    assert verdict.state == "SUCCEEDED", job.story()
    job.wait_for_no_process()
    labels = job_of(model, data).data.labels
    names = {label: f"auc/{label}" if len(labels) > 1 else "auc" for label in labels}
    aucs = {label: verdict.metrics[name] for label, name in names.items()}
    return Run(model, "afo", seed, aucs, verdict.seconds)


@pytest.mark.equivalence
@pytest.mark.hadoop
@pytest.mark.tensorflow
@pytest.mark.parametrize("model", NAMES)
def test_a_port_on_yarn_reaches_the_auc_of_keras(model: str, series: ResumableRuns[Run], places: Places) -> None:
    for seed in SEEDS:
        for side, train in (("keras", by_keras), ("afo", by_afo)):
            wanted = (model, side, seed)
            if series.find(lambda run, wanted=wanted: (run.model, run.side, run.seed) == wanted) is None:
                print(series.add(train(model, seed, places)))
    found = differences([run for run in series.runs if run.model == model])
    assert found
    assert {label: each for label, each in found.items() if not each.within(MARGIN)} == {}


def aucs_of(runs: list[Run], side: Side, label: str) -> list[float]:
    """In the order of their seeds."""
    return [run.aucs[label] for run in sorted(runs, key=lambda run: run.seed) if run.side == side]


def differences(runs: list[Run]) -> dict[str, Difference]:
    """Of all pairs of one model: what afo reaches above Keras, by label."""
    both = {run.seed for run in runs if run.side == "keras"} & {run.seed for run in runs if run.side == "afo"}
    pairs = [run for run in runs if run.seed in both]
    labels = pairs[0].aucs if len(both) > 1 else {}
    return {label: paired(aucs_of(pairs, "keras", label), aucs_of(pairs, "afo", label)) for label in labels}


def test_an_interval_inside_of_the_margin_is_equivalence() -> None:
    keras = [0.9180, 0.9184, 0.9179, 0.9190, 0.9182]
    moved = [auc + change for auc, change in zip(keras, (0.0004, 0.0, -0.0004, 0.0008, 0.0002), strict=True)]
    found = paired(keras, moved)
    # Mean 0.0002, standard deviation sqrt(2e-7): 2.132 of them over sqrt(5) to both sides.
    assert (found.mean, found.high - found.mean) == pytest.approx((0.0002, 0.000426), abs=1e-6)
    assert found.within(MARGIN)
    assert not found.within(0.0005)
    # Far apart on the average, or so uneven that five pairs say nothing.
    assert not paired(keras, [auc + 0.00195 + 0.0001 * (place % 2) for place, auc in enumerate(keras)]).within(MARGIN)
    assert not paired(keras, [auc + 0.004 * (-1) ** place for place, auc in enumerate(keras)]).within(MARGIN)


def report(runs: list[Run]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Own models: afo on YARN against one process of Keras",
        "",
        "Written by `make equivalence` (`tests/integration/models/test_equivalence.py`). Each model of",
        "`conf/models` is trained as public Keras code in one process with nothing of afo, and ported on 2 parameter",
        "servers and 2 workers of a real YARN, on the same files for as many epochs; a pair has one seed.",
        "Keras mixes all records, afo the files and the records of each; first weights are drawn apart.",
        "The AUC is exact, from all predictions",
        "on the same evaluation files. Equivalent: the 90 % confidence interval of the mean paired difference lies",
        f"within ±{MARGIN}",
        "(two one-sided t tests at 5 %).",
        "",
        circumstances(runs, "afo", "tensorflow-cpu", "keras", "skein"),
        "",
        "| model | label | pairs | Keras | afo | difference | 90 % interval | equivalent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model in NAMES:
        lines += _summary([run for run in runs if run.model == model])
    lines += ["", "| model | seed | trained by | AUC | seconds |", "|---|---|---|---|---|"]
    for run in sorted(runs, key=lambda run: (run.model, run.seed, run.side)):
        shown = ", ".join(f"{label} {auc:.5f}" for label, auc in run.aucs.items())
        lines.append(f"| {run.model} | {run.seed} | {run.side} | {shown} | {run.seconds:.0f} |")
    return "\n".join([*lines, ""])


def _summary(runs: list[Run]) -> list[str]:
    """A row for each label of one model."""
    rows = []
    for label, found in differences(runs).items():
        means = [statistics.mean(aucs_of(runs, side, label)) for side in ("keras", "afo")]
        rows.append(
            f"| {runs[0].model} | {label} | {len(aucs_of(runs, 'afo', label))} | {means[0]:.5f} | {means[1]:.5f} "
            f"| {found.mean:+.5f} | {found.low:+.5f} to {found.high:+.5f} | {'yes' if found.within(MARGIN) else 'no'} |"
        )
    return rows

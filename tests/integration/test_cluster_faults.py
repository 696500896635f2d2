"""`make test-faults`: faults around a job that trains on real YARN and HDFS; writes docs/reports/faults-part3.md.

Each job has to end SUCCEEDED with every sample counted once an epoch, an AUC in the band, and no process left. Good
runs are noted in build/faults/COMMIT.jsonl, so a series that was interrupted goes on; AFO_FAULTS_REPORT writes the
report elsewhere.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from adult import JOB_FILE, REPOSITORY, AdultData, assert_every_sample_once
from afo import event_log
from afo import events as ev
from afo_client.hadoop import Cluster
from cluster_faults import FAULTS
from live_job import LiveJob
from noted_runs import NotedRuns, circumstances, reported
from yarn_faults import EPOCHS, LONG, SMALL, STEPS, wait_for_step

pytestmark = [pytest.mark.faults, pytest.mark.hadoop, pytest.mark.tensorflow]

REPORT = Path(os.environ.get("AFO_FAULTS_REPORT") or REPOSITORY / "docs" / "reports" / "faults-part3.md")
#: AUC of the same job without faults (docs/reports/soak-part1.md) and what a fault may cost.
UNDISTURBED, BAND = 0.918, 0.005


@dataclass(frozen=True)
class Run:
    """One job that went well."""

    fault: str
    auc: float
    restarts: int
    masters: int
    generations: int
    causes: tuple[str, ...]
    #: From the fault until a file was acknowledged that was begun after it.
    recovery_s: float
    seconds: float


@pytest.fixture(scope="module")
def series() -> Iterator[NotedRuns[Run]]:
    """Writes the report after the last fault."""
    with reported("faults", Run, REPORT, report) as noted:
        yield noted


@pytest.mark.parametrize("name", FAULTS)
def test_a_job_survives(name: str, series: NotedRuns[Run], adult: AdultData, hadoop: Cluster) -> None:
    if series.find(lambda run: run.fault == name) is None:
        print(series.add(survive(name, adult, hadoop)))


def survive(name: str, adult: AdultData, hadoop: Cluster) -> Run:
    """A job in small steps, to which this happens in the first quarter."""
    fault = FAULTS[name]
    settings = (f"name={name}", *LONG, *SMALL, "am.attempts=2")
    options = [option for setting in settings for option in ("--set", setting)]
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *options)
    wait_for_step(job, STEPS // 5)
    done, began = job.splits_done(), time.time()
    fault.do(job, hadoop)
    verdict = job.verdict(900)
    assert verdict.state == "SUCCEEDED", job.story()
    assert job.splits_done() > done, "it happened in training"
    assert_every_sample_once(job, adult.acks(), EPOCHS)
    assert verdict.metrics["auc"] == pytest.approx(UNDISTURBED, abs=BAND)
    job.wait_for_no_process(150)
    run = Run(
        name, verdict.metrics["auc"], verdict.restarts, len(job.events(ev.AmStarted)),
        len(job.events(ev.GenerationStarted)), causes(job), recovery(job, began), verdict.seconds,
    )  # fmt: skip
    assert set(run.causes) <= fault.causes, job.story()
    assert (run.restarts <= fault.restarts, run.generations <= fault.generations) == (True, True), run
    assert run.masters <= fault.masters, run
    return run


def causes(job: LiveJob) -> tuple[str, ...]:
    """Of all ends before the last ones."""
    ends = [*job.events(ev.TaskEnded), *job.events(ev.ProcessEnded)]
    return tuple(sorted({end.cause for end in ends} - {"succeeded", "ended_with_job"}))


def recovery(job: LiveJob, began: float) -> float:
    """Seconds from the fault to the first acknowledgement of a file that was given out after it."""
    given: set[tuple[int, int]] = set()
    for record in event_log.read_log(job.paths.events):
        event = record.event
        if isinstance(event, ev.SplitLeased) and record.time > began:
            given.add((event.row, event.epoch))
        elif isinstance(event, ev.SplitDone) and (event.row, event.epoch) in given:
            return record.time - began
    return float("nan")


def report(runs: list[Run]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Faults of part 3: what happens around a job that trains on real YARN",
        "",
        "Written by `make test-faults` (`tests/integration/test_cluster_faults.py`). Each line is a job of",
        "`conf/jobs/adult-yarn.yaml` in small steps that ended SUCCEEDED with every sample counted once an epoch, no",
        f"process left and an AUC within ±{BAND} of {UNDISTURBED}. Back: seconds from the fault until a file was",
        "acknowledged that had been given out after it, the duration of the fault and of that file included.",
        "",
        circumstances(runs, "afo", "tensorflow-cpu", "skein"),
        "",
        "| fault | AUC | causes | restarts | AM starts | generations | back after s | job s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        words = ", ".join(f"`{cause}`" for cause in run.causes)
        lines.append(
            f"| {run.fault} | {run.auc:.4f} | {words} | {run.restarts} | {run.masters} | {run.generations} "
            f"| {run.recovery_s:.0f} | {run.seconds:.0f} |"
        )
    return "\n".join([*lines, ""])

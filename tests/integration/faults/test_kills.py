"""`make kills`: kills of each kind at random steps over ten seeds on real YARN, against undisturbed runs.

A fault job trains on what it can have trained on: SUCCEEDED, every sample once an epoch, and an AUC within mean ± 3
standard deviations of the undisturbed jobs. These are spread among the others: what else the machine does changes how
stale the workers' gradients are, and with it the AUC of any job. Writes docs/reports/soak-part1.md.
Takes hours on two cores, so each good run is noted in build/kills/COMMIT.jsonl and an interrupted series goes on after
it; AFO_KILLS_SEEDS and AFO_KILLS_UNDISTURBED make it shorter, AFO_KILLS_REPORT writes the report elsewhere.
"""

import os
import random
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

from adult import JOB_FILE, REPOSITORY, AdultData, assert_every_sample_once
from afo_client.hadoop import Cluster
from live_job import LiveJob
from resumable_runs import ResumableRuns, circumstances
from yarn_faults import EPOCHS, KINDS, LONG, SMALL, STEPS, wait_for_step

pytestmark = [pytest.mark.kills, pytest.mark.hadoop, pytest.mark.tensorflow]

SEEDS = range(1, 1 + int(os.environ.get("AFO_KILLS_SEEDS", "10")))
UNDISTURBED = range(101, 101 + int(os.environ.get("AFO_KILLS_UNDISTURBED", "5")))
_DISTURBED = [(kind, seed) for seed in SEEDS for kind in sorted(KINDS)]
_EVERY = max(1, len(_DISTURBED) // len(UNDISTURBED))
RUNS = [*((kind, seed, i * 1.0) for i, (kind, seed) in enumerate(_DISTURBED)),
        *(("none", seed, (i + 0.5) * _EVERY) for i, seed in enumerate(UNDISTURBED))]  # fmt: skip
REPORT = Path(os.environ.get("AFO_KILLS_REPORT") or REPOSITORY / "docs" / "reports" / "soak-part1.md")


@dataclass(frozen=True)
class Run:
    """One job of the soak that SUCCEEDED with every sample once an epoch."""

    kind: str
    seed: int
    step: int
    auc: float
    restarts: int
    seconds: float


class Soak(ResumableRuns[Run]):
    """All good runs of one commit, and the band that the undisturbed ones set."""

    def __init__(self) -> None:
        super().__init__("kills", Run)

    @property
    def undisturbed(self) -> list[Run]:
        """Those that set the band."""
        return [run for run in self.runs if run.kind == "none"]

    @property
    def disturbed(self) -> list[Run]:
        """Those with a kill."""
        return [run for run in self.runs if run.kind != "none"]

    @property
    def mean(self) -> float:
        """Of the undisturbed AUCs."""
        return statistics.mean(run.auc for run in self.undisturbed)

    @property
    def deviation(self) -> float:
        """Standard deviation of the undisturbed AUCs (n - 1)."""
        return statistics.stdev(run.auc for run in self.undisturbed)

    def __contains__(self, auc: float) -> bool:
        return abs(auc - self.mean) <= 3 * self.deviation


def start(adult: AdultData, name: str, seed: int) -> LiveJob:
    """The job of conf/jobs/adult-yarn.yaml in small steps."""
    settings = (f"name={name}", f"data.shuffle.seed={seed}", *LONG, *SMALL)
    options = [option for setting in settings for option in ("--set", setting)]
    return LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *options)


def finish(job: LiveJob, adult: AdultData, kind: str, seed: int, step: int) -> Run:
    """Its end, which must be a good one."""
    verdict = job.verdict(1500)
    assert verdict.state == "SUCCEEDED", job.story()
    assert_every_sample_once(job, adult.acks(), EPOCHS)
    job.wait_for_no_process()
    return Run(kind, seed, step, verdict.metrics["auc"], verdict.restarts, verdict.seconds)


@pytest.fixture(scope="module")
def soak() -> Soak:
    """With what an interrupted soak of this commit left."""
    return Soak()


@pytest.mark.parametrize(("kind", "seed"), [run[:2] for run in sorted(RUNS, key=lambda run: run[2])])
def test_a_job_succeeds_with_every_sample_once(
    soak: Soak, adult: AdultData, hadoop: Cluster, kind: str, seed: int
) -> None:
    if not soak.find(lambda run: (run.kind, run.seed) == (kind, seed)):
        soak.add(disturb(adult, kind, seed) if kind in KINDS else undisturbed(adult, seed))


def test_no_kill_changes_the_auc(soak: Soak) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(report(soak))
    outside = [run for run in soak.disturbed if run.auc not in soak]
    assert not outside, f"undisturbed {soak.mean} ± 3 · {soak.deviation}"


def undisturbed(adult: AdultData, seed: int) -> Run:
    """A job that nothing happens to."""
    return finish(start(adult, f"undisturbed {seed}", seed), adult, "none", seed, 0)


def disturb(adult: AdultData, kind: str, seed: int) -> Run:
    """A job with one process killed at a random step."""
    choice = random.Random(f"{kind} {seed}")
    step = choice.randrange(STEPS // 50, STEPS * 3 // 4)
    job = start(adult, f"soak {kind} {seed}", seed)
    wait_for_step(job, step)
    KINDS[kind](job, choice)
    return finish(job, adult, kind, seed, step)


def report(soak: Soak) -> str:
    """The page, in Markdown."""
    low, high = soak.mean - 3 * soak.deviation, soak.mean + 3 * soak.deviation
    inside = sum(run.auc in soak for run in soak.disturbed)
    lines = [
        "# Soak of part 1: kills on real YARN",
        "Written by `make kills` (`tests/integration/faults/test_kills.py`).",
        "Adult on 2 parameter servers and 2 workers:",
        f"{EPOCHS} epochs in batches of 32, {STEPS} steps, checkpoints every 8 s. One process gets SIGKILL at a random",
        "step; the replacement of a worker, Child or parameter server is sent to the other node.",
        "",
        circumstances(soak.runs, "afo", "tensorflow-cpu", "skein"),
        "",
        f"Undisturbed AUC ({len(soak.undisturbed)} runs): mean {soak.mean:.5f}, standard deviation "
        f"{soak.deviation:.5f}, so mean ± 3 sd is {low:.5f} to {high:.5f}. "
        f"Of {len(soak.disturbed)} disturbed runs that SUCCEEDED with every sample once an epoch, {inside} are inside.",
        "",
        "| kill | seed | at step | AUC | inside | restarts | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in (*soak.undisturbed, *soak.disturbed):
        lines.append(
            f"| {run.kind} | {run.seed} | {run.step or ''} | {run.auc:.5f} | {'yes' if run.auc in soak else 'no'} "
            f"| {run.restarts} | {run.seconds:.0f} |"
        )
    return "\n".join([*lines, ""])

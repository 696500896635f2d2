"""`make soak`: a kill every 45 s in a job that trains on real YARN; writes docs/reports/soak-part3.md.

Two jobs: kills of workers alone, and a mix of all kinds. Each is undisturbed at its beginning and its end; its goodput
is what it got done under kills against what it gets done then. Each has to end SUCCEEDED with every sample counted once
an epoch, and to leave nothing. AFO_SOAK_MINUTES (30 of the mix, a third of workers) makes it shorter; good runs are
noted in build/soak/COMMIT.jsonl, so a soak that was interrupted goes on; AFO_SOAK_REPORT writes the report elsewhere.
"""

import functools
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from adult import JOB_FILE, REPOSITORY, TRAIN_RECORDS, AdultData, assert_every_sample_once
from afo.events import types as ev
from afo_client.hadoop import Cluster
from live_job import LiveJob, afo
from resumable_runs import ResumableRuns, circumstances, reported
from soak import EVERY_S, MIX, WORKERS_ALONE, Kill, kill_once, order, percentile, rate, samples_of
from yarn_faults import SMALL

pytestmark = [pytest.mark.soak, pytest.mark.hadoop, pytest.mark.tensorflow]

REPORT = Path(os.environ.get("AFO_SOAK_REPORT") or REPOSITORY / "docs" / "reports" / "soak-part3.md")
MINUTES = float(os.environ.get("AFO_SOAK_MINUTES", "30"))
#: What is aimed at: the share of undisturbed work, and seconds until a killed process works again.
GOODPUT = {"workers": 0.95, "mix": 0.85}
BACK_S = {"worker": 15.0, "Child": 15.0, "AM": 30.0, "ps": 20.0, "evaluator": 15.0}
#: Time without kills before and after.
QUIET_S = 60.0
#: More work than the time is for, because a job may do better than the one that was calibrated with.
SPARE = 1.2
SETTINGS = ("data.batch_size=64", "checkpoint.every=8s", "train.eval_every=60s", *SMALL,
            # A pause that grows is for what fails again and again by itself.
            "restart.backoff.reset=30s",
            "restart.worker.max=1000", "restart.ps.max=1000", "restart.evaluator.max=1000")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One job that went well. `undisturbed`: samples per second before and after the kills."""

    kind: str
    kills: tuple[Kill, ...]
    undisturbed: tuple[float, float]
    #: Samples per second under kills, and for how many seconds.
    disturbed: float
    disturbed_s: float
    #: Samples of files that were acknowledged, undone by a rollback, and read again.
    repeated: int
    restarts: int
    seconds: float
    #: Resident MiB of the parameter servers' processes together before the kills and after them.
    servers: tuple[float, float]

    @property
    def goodput(self) -> float:
        """Work done under kills against undisturbed work."""
        return self.disturbed * 2 / sum(self.undisturbed)


@pytest.fixture(scope="module")
def series() -> Iterator[ResumableRuns[Run]]:
    """Writes the report at the end."""
    with reported("soak", Run, REPORT, report) as noted:
        yield noted


@pytest.mark.parametrize(("kind", "minutes"), [("workers", MINUTES / 3), ("mix", MINUTES)])
def test_a_job_outlives_its_kills(
    kind: str, minutes: float, series: ResumableRuns[Run], adult: AdultData, hadoop: Cluster
) -> None:
    if series.find(lambda run: run.kind == kind) is None:
        print(series.add(outlive(kind, minutes, adult)))


def outlive(kind: str, minutes: float, adult: AdultData) -> Run:
    """A job under kills for so many minutes."""
    epochs = round(calibrated(adult) * (minutes * 60 + 4 * QUIET_S) * SPARE / TRAIN_RECORDS)
    job = start(adult, f"soak of {kind}", epochs)
    mix = WORKERS_ALONE if kind == "workers" else MIX
    chance = random.Random(kind)
    before, small = rate(job, QUIET_S), servers_mib(job)
    began, samples, kills = time.monotonic(), samples_of(job), []
    for number, victim in enumerate(order(mix, int(minutes * 60 / EVERY_S), 1)):
        time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
        kills.append(kill_once(job, victim, chance))
    time.sleep(max(0.0, began + minutes * 60 - time.monotonic()))
    disturbed_s = time.monotonic() - began
    disturbed = (samples_of(job) - samples) / disturbed_s
    after, large = rate(job, QUIET_S), servers_mib(job)
    verdict = job.verdict(3600)
    assert verdict.state == "SUCCEEDED", job.story()
    assert_every_sample_once(job, adult.acks(), epochs)
    job.wait_for_no_process(150)
    return Run(
        kind, tuple(kills), (before, after), disturbed, disturbed_s, repeated(job), verdict.restarts, verdict.seconds,
        (small, large),
    )  # fmt: skip


@functools.cache
def calibrated(adult: AdultData) -> float:
    """Samples per second of a job to which nothing happens."""
    job = start(adult, "soak, undisturbed", 1000)
    undisturbed = rate(job, QUIET_S)
    assert afo("kill", job.id).returncode == 0
    job.wait_for_no_process(60)
    return undisturbed


def servers_mib(job: LiveJob) -> float:
    """Resident memory of both parameter servers."""
    return sum(float(job.trainer("ps", index).memory_info().rss) for index in range(2)) / 2**20


def start(adult: AdultData, name: str, epochs: int) -> LiveJob:
    """Submit, and wait until it trains."""
    settings = (f"name={name}", f"data.epochs={epochs}", *SETTINGS)
    options = [option for setting in settings for option in ("--set", setting)]
    job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *options)
    job.wait(lambda: job.splits_done() > 0, "it trains")
    return job


def repeated(job: LiveJob) -> int:
    """Samples that were acknowledged more than once, beside the first time."""
    done = job.events(ev.SplitDone)
    return sum(event.count for event in done) - sum({(e.split, e.epoch): e.count for e in done}.values())


def report(runs: list[Run]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Soak of part 3: a kill every 45 s on real YARN",
        "",
        "Written by `make soak` (`tests/integration/faults/test_soak.py`):",
        "`conf/jobs/adult-yarn.yaml` with 2 parameter",
        "servers, 2 workers and an evaluator, in batches of 64, a checkpoint every 8 s. Each job ended SUCCEEDED with",
        "every sample counted once an epoch, and left no process. Goodput: samples per second of the surviving history",
        "under kills, against the mean of a minute before and a minute after them, in the same job. Back: from SIGKILL",
        "until the task's next process made steps (parameter server: until both workers did; AM: until it answers;",
        "evaluator: until its process runs again). Servers: resident MiB of both processes before and after the kills.",
        "",
        circumstances(runs, "afo", "tensorflow-cpu", "skein"),
        "",
        "| kills | times | minutes | samples/s alone | under kills | goodput | aim | read twice | servers | left |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(
            f"| {run.kind} | {len(run.kills)} | {run.disturbed_s / 60:.0f} | {run.undisturbed[0]:.0f}, "
            f"{run.undisturbed[1]:.0f} | {run.disturbed:.0f} | {run.goodput:.3f} | {GOODPUT[run.kind]} "
            f"| {run.repeated} | {run.servers[0]:.0f}, {run.servers[1]:.0f} | 0 |"
        )
    lines += [
        "",
        "| killed | times | back: median s | p95 s | aim | not back in 120 s |",
        "|---|---|---|---|---|---|",
    ]
    kills = [kill for run in runs for kill in run.kills]
    for kind in MIX:
        mine = [kill for kill in kills if kill.kind == kind]
        back = [kill.back_s for kill in mine if kill.back_s is not None]
        times = f"{percentile(back, 0.5):.1f} | {percentile(back, 0.95):.1f}" if back else "– | –"
        lines.append(f"| {kind} | {len(mine)} | {times} | {BACK_S[kind]:.0f} | {len(mine) - len(back)} |")
    return "\n".join([*lines, ""])

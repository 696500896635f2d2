"""A job of Adult that goes through faults on a cluster: what has to hold of it, and a report of several."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from adult import JOB_FILE, TRAIN_FILES, AdultData, assert_every_sample_once
from afo.events import event_log
from afo.events import types as ev
from afo_client.hadoop import Cluster
from cluster_faults.fault import Fault, Late, Scene
from cluster_faults.phases import PHASES, Phase
from live_job import LiveJob, afo

#: AUC of the same job without faults (docs/reports/soak-part1.md) and what faults may cost.
UNDISTURBED, BAND = 0.918, 0.005
EPOCHS = 6
#: Small steps and many checkpoints; a job that has more than the half of the cluster that belongs to its queue.
SETTINGS = (
    f"data.epochs={EPOCHS}", "data.batch_size=32", "checkpoint.every=4s", "checkpoint.full_every=4",
    "train.eval_every=4s", "am.attempts=4",
    "am.memory=640", "roles.ps.memory=768", "roles.worker.memory=1664", "roles.evaluator.memory=1280",
)  # fmt: skip
ROUNDS = len(PHASES)
TODAYS = int(os.environ.get("AFO_FAULTS_ROUND") or time.time() // 86400) % ROUNDS
#: A checkpoint may be over before the harm is done.
TRIES = 4
#: What a fault has ready does not stay so for ever: `afo exec` ends a program after a minute.
ARMED_S = 40.0


@dataclass(frozen=True)
class Hit:
    """One fault in one phase of a job."""

    fault: str
    phase: str
    #: From the harm until a file was acknowledged that was given out after it, or until the job's end.
    recovery_s: float


@dataclass(frozen=True)
class Run:
    """One job that went well: the combination of faults, and what became of it."""

    round: int
    group: int
    hits: tuple[Hit, ...]
    skipped: tuple[str, ...]
    auc: float
    restarts: int
    masters: int
    generations: int
    causes: tuple[str, ...]
    seconds: float


def plan(groups: Sequence[Sequence[Fault]], number: int, group: int) -> list[tuple[Phase, Fault]]:
    """Which fault comes in which phase; a group has one for each, and in as many rounds each comes in each."""
    return [(phase, groups[group][(place + number) % len(PHASES)]) for place, phase in enumerate(PHASES)]


def survive(
    groups: Sequence[Sequence[Fault]], number: int, group: int, adult: AdultData, cluster: Cluster, *options: str
) -> Run:
    """A job, to which four things happen; the next one, where one of them came too late for its phase."""
    for _ in range(TRIES):
        try:
            return _survive_once((number, group), plan(groups, number, group), adult, cluster, options)
        except Late as late:
            print(late)
    pytest.fail(f"too late {TRIES} times")


def _survive_once(
    place: tuple[int, int],
    chosen: list[tuple[Phase, Fault]],
    adult: AdultData,
    cluster: Cluster,
    options: Sequence[str],
) -> Run:
    """A job, the one of this round and group, to which this happens. Raises `Late`."""
    faults = [(phase, fault) for phase, fault in chosen if not fault.missing()]
    skipped = tuple(f"{fault.name}: it takes {fault.missing()}" for _, fault in chosen if fault.missing())
    settings = [f"--set={setting}" for setting in ("name=faults {}.{}".format(*place), *SETTINGS)]
    with ExitStack() as undo:
        for _, fault in faults:
            fault.prepare(cluster, undo)
        job = LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *settings, *options)
        scene = Scene(job, cluster, undo)
        undo.callback(afo, "kill", job.id)  # one that is over is left alone
        struck = [(phase, fault, _hit(scene, phase, fault)) for phase, fault in faults]
        verdict = job.verdict(600)
    assert verdict.state == "SUCCEEDED", job.story()
    assert_every_sample_once(job, adult.acks(), EPOCHS)
    assert verdict.metrics["auc"] == pytest.approx(UNDISTURBED, abs=BAND)
    job.wait_for_no_process(150)
    records = job.records()
    hits = tuple(Hit(fault.name, phase.name, _recovery(records, at)) for phase, fault, at in struck)
    for phase, fault, at in struck:
        assert phase.was_hit(records, at, TRAIN_FILES * EPOCHS), f"{fault.name} missed {phase.name} at {at}"
    run = Run(
        *place, hits, skipped, verdict.metrics["auc"], verdict.restarts, len(job.events(ev.AmStarted)),
        len(job.events(ev.GenerationStarted)), _causes(job), verdict.seconds,
    )  # fmt: skip
    _within_limits(run, [fault for _, fault in faults], job)
    return run


def _hit(scene: Scene, phase: Phase, fault: Fault) -> float:
    """Wait for the phase, do harm, wait until the job goes on; returns when the harm was done."""
    for _ in range(TRIES):
        _wait_for(scene, phase, fault)
        fault.strike(scene)
        before = [record for record in scene.job.records() if record.time < scene.at]
        if phase.is_now(before, TRAIN_FILES * EPOCHS):
            break
    else:
        pytest.fail(f"{fault.name} missed {phase.name} {TRIES} times\n{scene.job.story()}")
    scene.job.wait(lambda: phase.was_hit(scene.job.records(), scene.at, TRAIN_FILES * EPOCHS), "it goes on")
    return scene.at


def _wait_for(scene: Scene, phase: Phase, fault: Fault) -> None:
    """Until the job is there, by its event log."""
    armed = 0.0

    def is_now() -> bool:
        nonlocal armed
        if time.monotonic() - armed > ARMED_S:
            fault.arm(scene)
            armed = time.monotonic()
        return phase.is_now(scene.job.records(), TRAIN_FILES * EPOCHS)

    scene.job.wait(is_now, f"{phase.name} ({fault.name})")


def _within_limits(run: Run, faults: list[Fault], job: LiveJob) -> None:
    """Nothing happened that the faults do not explain."""
    allowed = frozenset[str]().union(*(fault.causes for fault in faults))
    assert set(run.causes) <= allowed, f"{set(run.causes) - allowed}\n{job.story()}"
    most = [sum(getattr(fault, what) for fault in faults) for what in ("restarts", "masters", "generations")]
    found = [run.restarts, run.masters - 1, run.generations - 1]
    assert all(each <= limit for each, limit in zip(found, most, strict=True)), f"{found} of {most}: {run}"


def _causes(job: LiveJob) -> tuple[str, ...]:
    """Of all ends before the last ones."""
    ends = [*job.events(ev.TaskEnded), *job.events(ev.ProcessEnded)]
    return tuple(sorted({end.cause for end in ends} - {"succeeded", "ended_with_job"}))


def _recovery(records: list[event_log.Record], at: float) -> float:
    """Seconds from the harm to the first acknowledgement of a file that was given out after it, or to the end."""
    given: set[tuple[int, int]] = set()
    for record in records:
        event = record.event
        if isinstance(event, ev.SplitLeased) and record.time > at:
            given.add((event.split, event.epoch))
        elif isinstance(event, ev.SplitDone) and (event.split, event.epoch) in given:
            return record.time - at
    return records[-1].time - at


def tables(runs: list[Run], groups: Sequence[Sequence[Fault]]) -> list[str]:
    """Seconds of each fault in each phase, and what became of each job, in Markdown."""
    names = [fault.name for group in groups for fault in group]
    cells = {(hit.fault, hit.phase): hit.recovery_s for run in runs for hit in run.hits}
    lines = [
        "Seconds from the harm until a file was acknowledged that had been given out after it, the duration of the",
        "fault included; at shutdown until the job's end.",
        "",
        f"| fault | {' | '.join(phase.name for phase in PHASES)} |",
        f"|---|{'---|' * len(PHASES)}",
    ]
    for name in names:
        row = [cells.get((name, phase.name)) for phase in PHASES]
        lines.append(f"| {name} | {' | '.join('not run' if cell is None else f'{cell:.0f}' for cell in row)} |")
    lines += ["", "| job | AUC | causes | restarts | AM starts | generations | s |", "|---|---|---|---|---|---|---|"]
    for run in sorted(runs, key=lambda run: (run.round, run.group)):
        words = ", ".join(f"`{cause}`" for cause in run.causes)
        lines.append(
            f"| {run.round}.{run.group} | {run.auc:.4f} | {words} | {run.restarts} | {run.masters} | {run.generations} "
            f"| {run.seconds:.0f} |"
        )
    return [*lines, ""]

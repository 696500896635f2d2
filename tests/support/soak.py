"""Kills in a job at a steady pace: who is next, when what was killed is back, and what the job got done meanwhile."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from afo.errors import NotFound
from afo.events import types as ev
from afo.rpc.messages import Progress, StatusReply
from live_job import LiveJob

#: Shares of the mix, in percent.
MIX = {"worker": 70, "Child": 10, "ps": 10, "AM": 5, "evaluator": 5}
WORKERS_ALONE = {"worker": 100}
EVERY_S = 45.0
#: After so long without it a killed process counts as not recovered.
_GIVEN_UP_S = 120.0
_POLL_S = 0.2


@dataclass(frozen=True)
class Kill:
    """One of them. `back_s` is None where the next kill came first."""

    kind: str
    at: float
    back_s: float | None


def order(mix: dict[str, int], count: int, seed: int) -> list[str]:
    """Kinds in a random order, each as often as its share, the rest by chance."""
    chance = random.Random(seed)
    kinds = [kind for kind, share in mix.items() for _ in range(share * count // 100)]
    kinds += chance.choices(list(mix), list(mix.values()), k=count - len(kinds))
    chance.shuffle(kinds)
    return kinds


def kill_once(job: LiveJob, kind: str, chance: random.Random) -> Kill:
    """SIGKILL one process of a kind and wait until it does its work again, as the AM's status has it."""
    index = chance.randrange(2)
    victim, is_back = _target(job, kind, index)
    at = time.time()
    job.kill(victim)
    return Kill(kind, at, _seconds_until(is_back, at))


def _target(job: LiveJob, kind: str, index: int) -> tuple[psutil.Process, Callable[[], bool]]:
    match kind:
        case "AM":
            return job.master(), lambda: job.status() is not None
        case "evaluator":
            process = job.trainer("evaluator", 0)
            return process, lambda: _has_another(job, "evaluator", 0, process)
        case "ps":
            generation = len(job.events(ev.GenerationStarted))
            seen = {each: _progress(job.status(), "worker", each) for each in range(2)}
            return (
                job.trainer("ps", index),
                lambda: (
                    len(job.events(ev.GenerationStarted)) > generation
                    and all(_began_anew(_progress(job.status(), "worker", each), seen[each]) for each in seen)
                ),
            )
    before = _progress(job.status(), "worker", index)
    process = job.child("worker", index) if kind == "Child" else job.trainer("worker", index)
    return process, lambda: _began_anew(_progress(job.status(), "worker", index), before)


def _progress(status: StatusReply | None, role: str, index: int) -> Progress | None:
    tasks = status.tasks if status else ()
    return next((each.progress for each in tasks if (each.task.role, each.task.index) == (role, index)), None)


def _began_anew(progress: Progress | None, before: Progress | None) -> bool:
    """Another process of the task has made steps: its counters are below those of the one before."""
    return progress is not None and 0 < progress.samples < (before.samples if before else float("inf"))


def _has_another(job: LiveJob, role: str, index: int, process: psutil.Process) -> bool:
    with suppress(NotFound, psutil.NoSuchProcess, IndexError):
        return job.trainer(role, index) != process
    return False


def _seconds_until(condition: Callable[[], bool], since: float) -> float | None:
    while time.time() - since < _GIVEN_UP_S:
        if condition():
            return time.time() - since
        time.sleep(_POLL_S)
    return None


def samples_of(job: LiveJob) -> int:
    """Samples of the surviving history that were applied so far, as the AM counts them."""
    deadline = time.monotonic() + _GIVEN_UP_S
    while (status := job.status()) is None:
        assert time.monotonic() < deadline, f"no AM answers: {job.story()}"
        time.sleep(_POLL_S)
    return status.samples


def rate(job: LiveJob, seconds: float) -> float:
    """Samples per second in a time in which nothing is done to the job."""
    began, before = time.monotonic(), samples_of(job)
    time.sleep(seconds)
    return (samples_of(job) - before) / (time.monotonic() - began)


def percentile(values: Sequence[float], part: float) -> float:
    """By linear interpolation; of one value, that one."""
    ordered = sorted(values)
    if len(ordered) == 1:
        return ordered[0]
    return statistics.quantiles(ordered, n=100, method="inclusive")[round(part * 100) - 1]

"""Rates of tasks, between two looks at a job. Pure."""

from msgspec import Struct

from afo_client.jobs.view import JobView, TaskView
from afo_client.terminal.ratio import ratio


class TaskRates(Struct, frozen=True, kw_only=True):
    """One task between two looks; None for what cannot be said: it is new, or its process started anew in between."""

    task: TaskView
    steps_per_s: float | None = None
    samples_per_s: float | None = None
    #: Share of the steps' time that was spent waiting for input.
    input_wait: float | None = None
    #: Cores busy, of the Child and all that it started.
    cores: float | None = None


def rates(before: JobView, now: JobView, seconds: float) -> list[TaskRates]:
    """Each task of `now`, in its order. `seconds` lie between the looks."""
    known = {task.task: task for task in before.tasks}
    return [_rate_between(known.get(task.task), task, seconds) for task in now.tasks]


def _rate_between(before: TaskView | None, now: TaskView, seconds: float) -> TaskRates:
    if before is None or seconds <= 0:
        return TaskRates(task=now)
    cores = (now.cpu_s - before.cpu_s) / seconds if now.cpu_s >= before.cpu_s else None
    if now.step < before.step or now.samples < before.samples or not now.phase:
        return TaskRates(task=now, cores=cores)
    stepping = now.step_s - before.step_s
    # An evaluator's step is that of the checkpoint that it measures.
    steps = None if now.task.role == "evaluator" else ratio(now.step - before.step, seconds)
    return TaskRates(
        task=now,
        steps_per_s=steps,
        samples_per_s=ratio(now.samples - before.samples, seconds),
        input_wait=(now.input_wait_s - before.input_wait_s) / stepping if stepping > 0 else None,
        cores=cores,
    )

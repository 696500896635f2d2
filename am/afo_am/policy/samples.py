"""Samples for the event log: the training's counters with its progress, and what its tasks use. Pure."""

from __future__ import annotations

import math

from afo.events import types as ev
from afo_am.state import commands as c
from afo_am.state.context import Context
from afo_am.state.job_state import JobState
from afo_am.state.rates import Rates
from afo_am.state.tasks import Task

#: Seconds between two `Sample` events: often at first, for the curves of short jobs.
FIRST_S, EVERY_S = 2.0, 30.0
#: Seconds between two events of up to `TASKS_PER_EVENT` tasks; with twice as many it is twice as long, so that the
#: journal grows by the same for any number of tasks. The first one comes early, for short jobs.
USAGE_EVERY_S, TASKS_PER_EVENT, USAGE_FIRST_S = 60.0, 100, 20.0


def progress_of(state: JobState, rates: Rates) -> float | None:
    """Share of the job's steps that are made, 0 to 1; None where nobody knows how many there will be."""
    if state.trained or (state.splits.finished and state.splits.total):
        return 1.0
    total = _steps_in_all(state, _count_steps(state, rates))
    return min(1.0, _count_steps(state, rates) / total) if total else None


def seconds_left(state: JobState, rates: Rates, now: float) -> float | None:
    """Until the last step, at the pace of the last minutes; None while there is none."""
    made, pace = _count_steps(state, rates), rates.steps_per_s(now)
    total = _steps_in_all(state, made)
    return (total - made) / pace if total and pace and made < total else None


def _count_steps(state: JobState, rates: Rates) -> int:
    return max(state.step, rates.step) - state.first_step


def _steps_in_all(state: JobState, made: int) -> float | None:
    """What was counted before the job began; else, or once more are made, by the files that were read to their end."""
    job, splits = state.config.job, state.splits
    counted = job.optimizer.schedule.steps
    of_data: float | None = counted if counted and made <= counted else None
    if of_data is None and splits.done and splits.closed:
        of_data = splits.records / splits.done * splits.total / job.data.batch_size
    return min((limit for limit in (of_data, job.train.max_steps) if limit), default=None)


class TrainingSamples:
    """Part of the core that writes `Sample` events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._at = context.now
        #: Seconds from the last one to the next.
        self._pause = 0.0
        #: Samples in the last event, be it of an earlier incarnation.
        self.told = 0

    def look(self) -> None:
        """Once in each tick."""
        context, rates = self._context, self._context.rates
        if rates.samples and context.state.ready and context.now - self._at >= self._pause:
            self._at = context.now
            self._pause = min(EVERY_S, max(FIRST_S, 1.2 * self._pause))
            self._write(rates.samples_per_s(context.now), seconds_left(context.state, rates, context.now))
            context.command(c.ShowProgress(progress_of(context.state, rates) or 0.0))

    def last(self) -> None:
        """Keep how the training stood when the job ended: a short one would else be known by its first steps."""
        if self._context.rates.samples > self.told:
            self._write(self._context.rates.last_samples_per_s, None)

    def _write(self, samples_per_s: float, left: float | None) -> None:
        context, rates = self._context, self._context.rates
        self.told = rates.samples
        context.record(
            ev.Sample(
                step=rates.step, samples=rates.samples, samples_per_s=samples_per_s, input_wait=rates.input_wait,
                loss=rates.loss, staleness=rates.staleness, progress=progress_of(context.state, rates),
                seconds_left=left,
            )
        )  # fmt: skip


class UsageSamples:
    """Part of the core that writes down now and then what heartbeats say of usage. Nothing is decided by it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = context.now + USAGE_FIRST_S

    def look(self) -> None:
        """Once in each tick."""
        if self._context.now < self._next:
            return
        alive = [task for task in self._context.state.tasks.values() if task.process_alive and task.usage.rss]
        self._next = self._context.now + USAGE_EVERY_S * max(1, math.ceil(len(alive) / TASKS_PER_EVENT))
        if alive:
            self._context.record(ev.TasksUsed(tasks=tuple(map(_use, alive))))


def _use(task: Task) -> ev.TaskUse:
    used = task.usage
    return ev.TaskUse(task=task.id, rss=used.rss, peak_rss=used.peak_rss, cpu_s=used.cpu_s)

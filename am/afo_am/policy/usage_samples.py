"""Samples of the tasks' resource usage: now and then an event with the newest numbers of all that run. Pure."""

from __future__ import annotations

import math

from afo.events import types as ev
from afo_am.state.context import Context
from afo_am.state.tasks import Task

#: Seconds between two events of up to `PER_EVENT` tasks; with twice as many it is twice as long, so that the journal
#: grows by the same for any number of tasks. The first one comes early, for short jobs.
EVERY_S, PER_EVENT, FIRST_S = 60.0, 100, 20.0


class UsageSamples:
    """Part of the core that writes down what heartbeats say. Nothing is decided by it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = context.now + FIRST_S

    def look(self) -> None:
        """Once in each tick."""
        if self._context.now < self._next:
            return
        alive = [task for task in self._context.state.tasks.values() if task.process_alive and task.usage.rss]
        self._next = self._context.now + EVERY_S * max(1, math.ceil(len(alive) / PER_EVENT))
        if alive:
            self._context.record(ev.TasksUsed(tasks=tuple(map(_use, alive))))


def _use(task: Task) -> ev.TaskUse:
    used = task.usage
    return ev.TaskUse(task=task.id, rss=used.rss, peak_rss=used.peak_rss, cpu_s=used.cpu_s)

"""Straggler detection: a worker far slower than the others is replaced on another machine, within bounds. Pure.

Rates come from the counters in heartbeats. What tells nothing of a machine is left out: a worker that waits for input
(the data end), stands still (`afo_am.policy.hangs`) or has just begun; and where all are slow, the median is slow
as well.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from afo.events import types as ev
from afo.rpc.messages import TaskId
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task

#: Workers that train, the slow one included; a median of fewer says little.
LEAST = 3
#: Workers of a job that are replaced in an hour at most.
MOST_PER_HOUR, HOUR_S = 3, 3600.0
#: Counters are looked at so often in a window; an even number, for its halves.
_LOOKS = 8


class _Mark(NamedTuple):
    time: float
    samples: int


class Stragglers:
    """Part of the core that compares workers. What it measured is not in the journal: a restarted AM begins anew."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._generation = 0
        self._looked = float("-inf")
        #: Of each worker that trains, its samples at regular times of the last window.
        self._marks: dict[TaskId, deque[_Mark]] = {}

    def lacks_input(self, task: TaskId) -> None:
        """It waits for a file: its rate says nothing until a whole window later."""
        self._marks.pop(task, None)

    def look(self) -> None:
        """Find the slowest worker, and replace it if it is too slow."""
        context, rule = self._context, self._context.state.config.job.restart.slow
        if not rule.below or context.state.config.job.program or context.now - self._looked < rule.over / _LOOKS:
            return
        self._looked = context.now
        self._mark()
        rates = {task: _halves(marks) for task, marks in self._marks.items() if len(marks) > _LOOKS}
        if len(rates) >= LEAST:
            self._judge(rates)

    def _mark(self) -> None:
        state = self._context.state
        training = [task for task in state.of_role("chief", "worker") if state.ready and _trains(task)]
        kept = self._marks if self._generation == state.generation else {}
        self._generation = state.generation
        self._marks = {task.id: self._add_mark(task, kept.get(task.id)) for task in training}

    def _add_mark(self, task: Task, marks: deque[_Mark] | None) -> deque[_Mark]:
        samples = task.progress.samples if task.progress else 0
        if marks is None or samples < marks[-1].samples:  # fewer than before: a new process
            marks = deque(maxlen=_LOOKS + 1)
        marks.append(_Mark(self._context.now, samples))
        return marks

    def _judge(self, rates: dict[TaskId, tuple[float, float]]) -> None:
        state, whole = self._context.state, {task: sum(halves) / 2 for task, halves in rates.items()}
        for task_id in sorted(whole, key=whole.__getitem__):
            task, halves = state.tasks[task_id.role, task_id.index], rates[task_id]
            others = median(rate for other, rate in whole.items() if other != task_id)
            limit = state.config.job.restart.slow.below * others
            if whole[task_id] >= limit:  # the rest is faster
                return
            may_leave = task is not state.chief and not task.stays_slow
            if may_leave and min(halves) > 0 and max(halves) < limit and self._is_settled(rates):
                self._tell(task, whole[task_id], others)
                return

    def _is_settled(self, rates: dict[TaskId, tuple[float, float]]) -> bool:
        """One at a time: who came in place of the last one has shown its rate."""
        state = self._context.state
        if not (recent := self._recent()):
            return True
        last = state.tasks["worker", recent[-1]]
        return last.id in rates or last.given_up or not state.is_wanted(last)

    def _recent(self) -> list[int]:
        """Indices of workers replaced in the last hour, the newest last."""
        return [index for time, index in self._context.state.replaced_slow if self._context.wall - time <= HOUR_S]

    def _tell(self, task: Task, rate: float, others: float) -> None:
        recent, seconds = self._recent(), self._context.state.config.job.restart.slow.over
        stays = ""
        if task.id.index in recent:
            stays = "the worker in whose place it came was slow too: it may be its files, not its machine"
        elif len(recent) >= MOST_PER_HOUR:
            stays = f"{MOST_PER_HOUR} workers were replaced in the last hour for being slow"
        self._context.record(
            ev.TaskSlow(
                task=task.id, samples_per_s=round(rate, 1), median=round(others, 1), seconds=float(seconds), stays=stays
            )
        )


def _trains(task: Task) -> bool:
    training = task.progress is not None and task.progress.phase in ("training", "saving")
    return training and task.process_alive and task.stage is Stage.REGISTERED and not task.leaving


def _halves(marks: deque[_Mark]) -> tuple[float, float]:
    """Samples per second in each half of the window."""
    begin, middle, end = marks[0], marks[_LOOKS // 2], marks[-1]
    return _rate(begin, middle), _rate(middle, end)


def _rate(before: _Mark, after: _Mark) -> float:
    return (after.samples - before.samples) / max(after.time - before.time, 1e-9)

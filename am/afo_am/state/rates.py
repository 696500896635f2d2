"""Rates of the job, out of the counters that tasks send. Not journaled. Pure."""

import math
from collections import deque
from collections.abc import Iterable

from afo.protocol.input_wait import InputBound, InputWait, bound_of
from afo.protocol.train_task import Progress
from afo.rpc.messages import TaskId

#: Seconds over which the rate is taken.
WINDOW_S = 15.0
#: Seconds over which the pace is taken, by which the end is foretold; and between two marks in it.
PACE_S, MARK_S = 120.0, 5.0


class Rates:
    """Sums the counters of all training processes, also over their restarts."""

    def __init__(self) -> None:
        self.step = 0
        #: Samples applied by all processes so far, those that a rollback undid included.
        self.samples = 0
        #: Samples that the model was trained on; None before that is known, after a restart of the AM.
        self.trained: int | None = None
        self.loss: float | None = None
        #: Samples per second when the last of them came.
        self.last_samples_per_s = 0.0
        #: Monotonic clock of the last change in any task's progress; None before the first.
        self.changed_at: float | None = None
        #: By role and index, of workers that train.
        self._staleness: dict[tuple[str, int], float] = {}
        self._last: dict[TaskId, Progress] = {}
        #: Tasks whose counters began before this AM did.
        self._counted: set[TaskId] = set()
        self._wait = InputWait()
        self._step_s = 0.0
        self._window: deque[tuple[float, int]] = deque()
        #: (time, step); one more than `PACE_S` holds at most.
        self._marks: deque[tuple[float, int]] = deque()

    def resume(self, samples: int, tasks: Iterable[TaskId]) -> None:
        """A restarted AM goes on: `samples` were counted before, and what `tasks` report first is in them."""
        self.samples = samples
        self._counted = set(tasks)

    def reset(self, step: int, trained: int = 0) -> None:
        """A generation begins at `step`, with a model that was trained on so many samples."""
        self.step, self.trained = step, trained
        self._staleness.clear()
        self._marks.clear()

    def take(self, task: TaskId, progress: Progress, now: float) -> None:
        """Add what `task` did since its last report; smaller counters than before mean a new process.

        One that goes over into another generation counts anew as well (`Master.servers`).
        """
        last = self._last.get(task)
        if last is None and task in self._counted:
            last = progress
        if last is None or _began_anew(last, progress):
            last = Progress(phase="starting")
        if task not in self._last or progress.is_beyond(self._last[task]):
            self.changed_at = now
        self._last[task] = progress
        if task.role not in ("chief", "worker"):
            return
        self.samples += progress.samples - last.samples
        if self.trained is not None:
            self.trained += progress.samples - last.samples
        self._wait += progress.input_wait - last.input_wait
        self._step_s += progress.step_s - last.step_s
        self.step = max(self.step, progress.step)
        self._note_staleness(task, progress)
        if progress.loss is not None:
            self.loss = progress.loss if math.isfinite(progress.loss) else None
        self._window.append((now, self.samples))
        while len(self._window) > 2 and self._window[0][0] < now - WINDOW_S:
            self._window.popleft()
        if progress.samples > last.samples:
            self.last_samples_per_s = self.samples_per_s(now)
        self._mark(now)

    def _mark(self, now: float) -> None:
        if self._marks and now - self._marks[-1][0] < MARK_S:
            return
        self._marks.append((now, self.step))
        while len(self._marks) > 2 and self._marks[0][0] < now - PACE_S:
            self._marks.popleft()

    def _note_staleness(self, task: TaskId, progress: Progress) -> None:
        if progress.staleness is not None and progress.phase in ("training", "saving"):
            self._staleness[task.role, task.index] = progress.staleness
        else:
            self._staleness.pop((task.role, task.index), None)

    @property
    def staleness(self) -> float | None:
        """Mean over the workers that train (`Progress.staleness`); None while none has told."""
        return sum(self._staleness.values()) / len(self._staleness) if self._staleness else None

    def samples_per_s(self, now: float) -> float:
        """Samples per second of all workers over the last seconds; 0 when nothing came for longer."""
        if len(self._window) < 2 or now - self._window[-1][0] > WINDOW_S:
            return 0.0
        (since, before), (_, after) = self._window[0], self._window[-1]
        return (after - before) / max(now - since, 1e-9)

    def steps_per_s(self, now: float) -> float:
        """Steps per second of all workers over the last minutes; 0 before they are known."""
        if not self._marks or now <= self._marks[0][0]:
            return 0.0
        since, before = self._marks[0]
        return (self.step - before) / (now - since)

    @property
    def input_wait(self) -> float:
        """Share of the step time, 0 to 1, that training waited for input."""
        return self._wait.total / self._step_s if self._step_s > 0 else 0.0

    @property
    def input_bound(self) -> InputBound | None:
        """What bounds the input, where that is worth a word."""
        return bound_of(self._wait, self._step_s)


def _began_anew(last: Progress, progress: Progress) -> bool:
    fewer = progress.samples < last.samples or progress.step_s < last.step_s
    return fewer or progress.generation != last.generation

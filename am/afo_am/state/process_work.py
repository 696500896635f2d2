"""Work of processes that make no steps: who saves, restores or exports has no counters of its own. Not journaled. Pure.

What counts is what the kernel says of the process: a step has counters, so while a process trains nothing else counts
as progress, or a loop without an end would. Parameter servers work for the chief.
"""

from typing import NamedTuple

from afo.protocol.train_task import Progress
from afo.rpc.messages import ProcessWork
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Task

#: A process works that took so large a part of a core, or moved so many bytes per second, over so many seconds at
#: least. One that waits for a stopped server took a thousandth of a core.
CORE_PART, BYTES_PER_S, MARK_S = 0.1, 64 << 10, 2.0
#: Phases without counters.
_UNCOUNTED = frozenset({"starting", "restoring", "initializing", "saving", "exporting"})


class _Mark(NamedTuple):
    time: float
    work: ProcessWork


class Works:
    """When processes last worked, by the monotonic clock."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], _Mark] = {}
        self._at: dict[tuple[str, int], float] = {}

    def take(self, state: JobState, task: Task, work: ProcessWork, now: float) -> None:
        """What a task's process has done until now; less than before means another process."""
        key = task.id.role, task.id.index
        mark = self._marks.get(key)
        if mark is None or work.cpu_s < mark.work.cpu_s or work.moved_bytes < mark.work.moved_bytes:
            self._marks[key] = _Mark(now, work)
            return
        if now - mark.time < MARK_S:
            return
        self._marks[key] = _Mark(now, work)
        if _is_work(mark, work, now):
            for other in _workers(state, task):
                self._at[other.id.role, other.id.index] = now

    def at(self, task: Task) -> float:
        """When the task's process, or another one for it, last worked; -inf for never."""
        return self._at.get((task.id.role, task.id.index), float("-inf"))

    @property
    def last(self) -> float:
        """The newest of all tasks; -inf for none."""
        return max(self._at.values(), default=float("-inf"))


def _is_work(mark: _Mark, work: ProcessWork, now: float) -> bool:
    seconds = now - mark.time
    busy, moved = work.cpu_s - mark.work.cpu_s, work.moved_bytes - mark.work.moved_bytes
    return busy >= CORE_PART * seconds or moved >= BYTES_PER_S * seconds


def _workers(state: JobState, task: Task) -> tuple[Task, ...]:
    """The tasks for which the work of this one's process counts: itself, of a parameter server the chief too."""
    if task.id.role != "ps":
        return (task,) if _has_no_counters(task.progress) else ()
    chief = state.chief
    return (task, chief) if chief.process_alive and _has_no_counters(chief.progress) else ()


def _has_no_counters(progress: Progress | None) -> bool:
    if progress is None:
        return True
    # An evaluator that reads its checkpoint has no samples yet.
    return progress.phase in _UNCOUNTED or (progress.phase == "evaluating" and not progress.samples)

"""Ends that only a person can put an end to: since when they go on without progress, and what is told of them. Pure.

The chief and parameter servers write checkpoints, so of them only a checkpoint is progress: a save that fails each time
would else be tried again and again between two steps.
"""

import time

from afo.exits import CAUSES
from afo.job import ROLES, Role
from afo.rpc.messages import TaskId
from afo.train_task import Progress
from afo_am.state import JobState
from afo_am.tasks import LIVE, Stage, Task

#: Seconds after which a time of day needs its date.
_TODAY_S = 12 * 3600


def saved(state: JobState) -> None:
    """A checkpoint was written."""
    for task in (state.chief, *state.of_role("ps")):
        task.repair = None


def trained(state: JobState, task_id: TaskId) -> None:
    """A task trained, or is done with a file."""
    task = state.tasks[task_id.role, task_id.index]
    if task.id.role == "worker" and task is not state.chief:
        task.repair = None


def ran(state: JobState, task: Task, seconds: float) -> None:
    """A container ran for so long; of a program nothing else is known."""
    if state.config.job.program and seconds > state.config.job.timeouts.repair:
        task.repair = None


def has_trained(progress: Progress | None) -> bool:
    """Whether the process of these counters did anything that counts."""
    return progress is not None and progress.samples > 0


def is_overdue(state: JobState, task: Task, wall: float) -> bool:
    """Whether a person has had the time for it, and it ends as before."""
    return task.repair is not None and wall - task.repair.since > state.config.job.timeouts.repair


def reason(state: JobState, task: Task, wall: float) -> str:
    """Why it is not tried again: since when and how often it ended, and what to do."""
    limit, advice = state.config.job.timeouts.repair, CAUSES[task.repair.cause].advice if task.repair else ""
    return f"{_since(task, wall)}, and nobody repaired it within {limit} (`timeouts.repair`). {advice}"


def oldest(state: JobState, *roles: Role) -> Task | None:
    """The task of these roles that has waited the longest for a person, None where nobody does."""
    waiting = [task for task in state.of_role(*roles) if _waits(state, task)]
    return min(waiting, key=lambda task: task.repair.since if task.repair else 0.0, default=None)


def _waits(state: JobState, task: Task) -> bool:
    if task.repair is None or task.given_up or not state.is_wanted(task):
        return False
    goes_well = task.id.role == "worker" and task is not state.chief and has_trained(task.progress)
    return (task.stage in LIVE or task.stage is Stage.ENDED) and not goes_well


def words(state: JobState, wall: float) -> str:
    """`worker:0 ended 4 times since 14:02 UTC: disk_full on node7; …`, or '' where nobody has to do anything."""
    task = oldest(state, *ROLES)
    if task is None or task.repair is None:
        return ""
    others = sum(_waits(state, other) for other in state.tasks.values()) - 1
    more = f" (and {others} more {'tasks' if others > 1 else 'task'})" if others else ""
    end = _clock(task.repair.since + state.config.job.timeouts.repair, wall)
    where = f" on {task.repair.host}" if task.repair.host else ""
    until = f"tried again until {end} (`timeouts.repair`)"
    return f"{task.id}{more} {_since(task, wall)}: {task.repair.cause}{where}; {until}"


def _since(task: Task, wall: float) -> str:
    if task.repair is None:
        return ""
    times = f"{task.repair.times} times" if task.repair.times > 1 else "once"
    return f"ended {times} since {_clock(task.repair.since, wall)}"


def _clock(moment: float, wall: float) -> str:
    form = "%H:%M UTC" if abs(wall - moment) < _TODAY_S else "%Y-%m-%d %H:%M UTC"
    return time.strftime(form, time.gmtime(moment))

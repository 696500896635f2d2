"""Causes that only a person can remove (a full disk): since when they recur without progress. Pure.

The chief and parameter servers write checkpoints, so of them only a checkpoint is progress: a save that fails each time
would else be tried again and again between two steps.
"""

import time

from afo.failures.causes import CAUSES
from afo.job import ROLES, Role
from afo.protocol.train_task import Progress
from afo.rpc.messages import TaskId
from afo_am.state.job_state import JobState
from afo_am.state.tasks import LIVE, Repair, Stage, Task

#: Seconds after which a time of day needs its date.
_TODAY_S = 12 * 3600


def note_checkpoint(state: JobState) -> None:
    """A checkpoint was written."""
    for task in (state.chief, *state.of_role("ps")):
        task.repair = None


def note_training(state: JobState, task_id: TaskId) -> None:
    """A task trained, or is done with a file."""
    task = state.tasks[task_id.role, task_id.index]
    if _only_trains(state, task):
        task.repair = None


def note_run(state: JobState, task: Task, seconds: float) -> None:
    """A container ran for so long; of a program nothing else is known."""
    if state.config.job.program and seconds > state.config.job.timeouts.repair:
        task.repair = None


def has_trained(progress: Progress | None) -> bool:
    """Whether the process of these counters did anything that counts."""
    return progress is not None and progress.samples > 0


def is_overdue(state: JobState, repair: Repair, wall: float) -> bool:
    """Whether a person has had the time for it, and it ends as before."""
    return wall - repair.since > state.config.job.timeouts.repair


def reason(state: JobState, repair: Repair, wall: float) -> str:
    """Why it is not tried again: since when and how often it ended, and what to do."""
    limit, advice = state.config.job.timeouts.repair, CAUSES[repair.cause].advice
    return f"{_since(repair, wall)}, and nobody repaired it within {limit} (`timeouts.repair`). {advice}"


def waiting(state: JobState, *roles: Role) -> list[tuple[Task, Repair]]:
    """The tasks of these roles that wait for a person, the one that has waited the longest first."""
    found = [(task, task.repair) for task in state.of_role(*roles) if task.repair and _waits(state, task)]
    return sorted(found, key=lambda pair: pair[1].since)


def _waits(state: JobState, task: Task) -> bool:
    if task.given_up or not state.is_wanted(task):
        return False
    goes_well = _only_trains(state, task) and has_trained(task.progress)
    return (task.stage in LIVE or task.stage is Stage.ENDED) and not goes_well


def _only_trains(state: JobState, task: Task) -> bool:
    return task.id.role == "worker" and task is not state.chief


def words(state: JobState, wall: float) -> str:
    """`worker:0 ended 4 times since 14:02 UTC: disk_full on node7; …`, or '' where nobody has to do anything."""
    waits = waiting(state, *ROLES)
    if not waits:
        return ""
    (task, repair), others = waits[0], len(waits) - 1
    more = f" (and {others} more {'tasks' if others > 1 else 'task'})" if others else ""
    end = _clock(repair.since + state.config.job.timeouts.repair, wall)
    where = f" on {repair.host}" if repair.host else ""
    return f"{task.id}{more} {_since(repair, wall)}: {repair.cause}{where}; tried again until {end} (`timeouts.repair`)"


def _since(repair: Repair, wall: float) -> str:
    times = f"{repair.times} times" if repair.times > 1 else "once"
    return f"ended {times} since {_clock(repair.since, wall)}"


def _clock(moment: float, wall: float) -> str:
    form = "%H:%M UTC" if abs(wall - moment) < _TODAY_S else "%Y-%m-%d %H:%M UTC"
    return time.strftime(form, time.gmtime(moment))

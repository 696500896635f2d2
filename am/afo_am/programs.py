"""What is special about jobs that run a user's own program instead of a model. Pure.

A program has one cluster definition for all its tasks. With `restart.scope: job`, a task whose process failed keeps its
container: its generation ends, and all start anew in place. Processes that fail with it belong to a generation that has
ended, so of one accident one task is blamed, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afo import events as ev
from afo.job import Role
from afo.rpc import messages as m
from afo_am.diagnosis import message_of
from afo_am.restarts import give_up_reason, pause_before_restart
from afo_am.state import JobState
from afo_am.tasks import Stage, Task

if TYPE_CHECKING:
    from afo_am.core import Core


def formed(state: JobState, now: float) -> dict[Role, tuple[str, ...]]:
    """The addresses of the present generation by role; empty while one is missing, or pauses before its restart."""
    for task in state.of_role(*state.config.job.listening):
        if task.stage is not Stage.REGISTERED or task.address_generation != state.generation or task.not_before > now:
            return {}
    return {role: tuple(task.address for task in state.of_role(role)) for role in state.config.job.listening}


def moved(state: JobState, task: Task) -> dict[Role, tuple[str, ...]]:
    """The present cluster with the address of a task that came back elsewhere; empty if nothing has changed."""
    index = task.id.index
    before = state.cluster.get(task.id.role, ())
    if not before or before[index] == task.address:
        return {}
    return {**state.cluster, task.id.role: (*before[:index], task.address, *before[index + 1 :])}


def process_ended(core: Core, task: Task, report: m.ExitReport) -> None:
    """A process failed and its Child stays: the generation ends with it, or the job."""
    state = core.state
    if report.generation != state.generation or not state.cluster or state.verdict:
        return
    message = message_of(report, state.spec(task.id.role).memory)
    core.record(ev.ProcessEnded(task=task.id, cause=report.cause, code=report.code, message=message, tail=report.tail))
    reason = give_up_reason(state, task, report.cause, core.wall, message)
    if reason:
        core.ending.decide("FAILED", report.cause, f"{task.id}: {message.rstrip('.')}; {reason}", task.id)
    else:
        task.not_before = core.now + pause_before_restart(state, task, core.wall)
        end_generation(core, task, report.cause)


def end_generation(core: Core, task: Task, cause: str) -> None:
    """All processes of the generation are to be started anew, because of `task`."""
    state = core.state
    text = f"{task.id} (attempt {task.id.attempt}) is gone: {cause}"
    core.record(ev.GenerationEnded(generation=state.generation, reason=text, manifest=state.newest_manifest))

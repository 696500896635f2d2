"""Restarts in place: a process that fails starts anew in its container, or not. Pure.

A Child whose process failed offers to stay. It may, unless the next attempt needs another container, and it starts the
process again once a directive counts as many starts as it has reported ends.
"""

from afo.events import types as ev
from afo.failures.causes import OF_THE_HOST
from afo.rpc import messages as m
from afo_am.policy.lifecycle import Lifecycle, message_of
from afo_am.policy.restarts import MEMORY_CAUSES, holds
from afo_am.state.context import Context
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Task

#: The next attempt needs more memory, another machine or a fresh container.
_NEED_ANOTHER_CONTAINER = MEMORY_CAUSES | OF_THE_HOST | {
    "python_not_found", "preload_missing", "port_in_use", "restarts_exhausted", "container_stopped", "work_dir_lost",
}  # fmt: skip
#: After so many in one container the next start is in another one: something may be wrong with this.
MAX_IN_PLACE = 3


def process_ended(context: Context, tasks: Lifecycle, task: Task, report: m.ExitReport) -> bool:
    """A process failed: another one is started, its generation ends with it, or the job.

    False if that is not for this container, whose Child then leaves.
    """
    state = context.state
    if not report.stays or task.leaving:
        return False
    told_before = 0 < report.number <= task.process_ends
    if state.verdict or told_before or _is_echo(state, task, report):
        return True
    if report.cause in _NEED_ANOTHER_CONTAINER or task.in_place >= MAX_IN_PLACE:
        return False
    _record(context, tasks, task, report)
    return True


def _is_echo(state: JobState, task: Task, report: m.ExitReport) -> bool:
    """The process listened in a generation that has ended, and would have been ended with it."""
    if holds(state, task):
        return report.generation < state.holders[task.id.index].generation
    return task.id.role in state.config.job.listening and (report.generation != state.generation or not state.cluster)


def _record(context: Context, tasks: Lifecycle, task: Task, report: m.ExitReport) -> None:
    state = context.state
    message = message_of(report, state.spec(task.id.role).memory)
    context.record(
        ev.ProcessEnded(
            task=task.id, cause=report.cause, code=report.code, message=message, tail=report.tail, number=report.number
        )
    )
    tasks.start_again(task, report.cause, message)

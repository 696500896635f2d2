"""Processes that fail and start anew in their containers: what the AM decides about them. Pure.

A Child whose process failed offers to stay. It may, unless the next attempt needs another container, and it starts the
process again once a directive counts as many starts as it has reported ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afo import events as ev
from afo.rpc import messages as m
from afo_am.diagnosis import MEMORY_CAUSES, message_of
from afo_am.restarts import ends_generation, give_up_reason, pause_before_restart
from afo_am.tasks import Task

if TYPE_CHECKING:
    from afo_am.core import Core

#: The next attempt needs more memory, another machine or a fresh container.
_NEED_ANOTHER_CONTAINER = MEMORY_CAUSES | {
    "disk_full", "illegal_instruction", "python_not_found", "preload_missing", "port_in_use", "restarts_exhausted",
    "child_error", "container_stopped", "work_dir_lost",
}  # fmt: skip
#: After so many in one container the next start is in another one: something may be wrong with this.
MAX_IN_PLACE = 3


def process_ended(core: Core, task: Task, report: m.ExitReport) -> bool:
    """A process failed: another one is started, its generation ends with it, or the job.

    False if that is not for this container, whose Child then leaves.
    """
    state = core.state
    if not report.stays:
        return False
    told_before = 0 < report.number <= task.process_ends
    listens = task.id.role in state.config.job.listening
    echo = listens and (report.generation != state.generation or not state.cluster)
    if state.verdict or told_before or echo:
        return True
    if report.cause in _NEED_ANOTHER_CONTAINER or task.in_place >= MAX_IN_PLACE:
        return False
    _record(core, task, report)
    return True


def _record(core: Core, task: Task, report: m.ExitReport) -> None:
    state = core.state
    message = message_of(report, state.spec(task.id.role).memory)
    core.record(
        ev.ProcessEnded(
            task=task.id, cause=report.cause, code=report.code, message=message, tail=report.tail, number=report.number
        )
    )
    reason = give_up_reason(state, task, report.cause, core.wall, message)
    if reason:
        core.give_up(task, report.cause, message, reason)
        return
    task.not_before = core.now + pause_before_restart(state, task, core.wall)
    if ends_generation(state, task):
        end_generation(core, task, report.cause)


def end_generation(core: Core, task: Task, cause: str) -> None:
    """All processes of the generation are to be started anew, because of `task`."""
    state = core.state
    text = f"{task.id} (attempt {task.id.attempt}) is gone: {cause}"
    core.record(ev.GenerationEnded(generation=state.generation, reason=text, manifest=state.newest_manifest))

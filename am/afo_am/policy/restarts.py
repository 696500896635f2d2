"""Restart policy: whether a task comes back, when, and who else with it, or the job goes on without it. Pure."""

import re
from typing import NamedTuple

from afo.events import types as ev
from afo.failures.causes import CAUSES, MAX_FREE_RESTARTS, NEEDS_REPAIR
from afo.protocol.train_task import POSITION_HOLDERS
from afo_am.state import manual_repair
from afo_am.state.context import Context
from afo_am.state.gang_backoff import jitter
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Stage, Task

#: Ends after which the next attempt gets more memory.
MEMORY_CAUSES = frozenset({"memory_limit", "out_of_memory"})
#: Causes that are read off the last exception of a process.
EXCEPTIONS = frozenset(
    {"user_exception", "data_error", "spec_error", "file_not_found", "permission_denied", "quality_gate",
     "model_error", "not_finite"}
)  # fmt: skip
#: What the interpreter finds wrong with code, whatever other tasks do.
_OWN_FAULTS = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError")
_NOT_RETRIED = "this is not retried: it would fail again"
#: How often the same exception may come before it counts as the code's own. A task of a program may raise it each time
#: that another one is lost; tasks of a model do not.
_SAME_OF_PROGRAM, _SAME_OF_MODEL = 2, 1
#: What differs between two cases of one exception: addresses, random names (hexadecimal digits, six or more of them,
#: one of which is no letter), and numbers.
_NUMBERS = re.compile(r"0x[0-9a-f]+|(?<![0-9a-zA-Z])(?=[a-f]*[0-9])[0-9a-f]{6,}(?![0-9a-zA-Z])|\d+")


class GiveUp(NamedTuple):
    """The task does not come back."""

    reason: str


class Again(NamedTuple):
    """Another attempt after a pause in seconds, with all others if the generation ends."""

    pause_s: float
    ends: ev.GenerationEnded | None


def decide_restart(state: JobState, task: Task, cause: str, wall: float, message: str) -> GiveUp | Again:
    """What follows from this end of `task`, which is recorded already."""
    if reason := give_up_reason(state, task, cause, wall, message):
        return GiveUp(reason)
    ends = None
    if ends_generation(state, task):
        ends = generation_ended(state, task, f"{task.id} (attempt {task.id.attempt}) is gone: {cause}")
    return Again(pause_before_restart(state, task, wall), ends)


def give_up_reason(state: JobState, task: Task, cause: str, wall: float, message: str) -> str:
    """Why the job fails with this end of `task`, or '' when the task is started again."""
    budget = state.config.job.restart.of(task.id.role)
    if reason := _fails_again(state, task, cause, wall, message):
        return reason
    if cause in NEEDS_REPAIR and task.repair and manual_repair.is_overdue(state, task.repair, wall):
        return f"it {manual_repair.reason(state, task.repair, wall)}"
    if task.free_restarts > MAX_FREE_RESTARTS:
        return f"started again {MAX_FREE_RESTARTS} times without success"
    if CAUSES[cause].blame == "user":
        recent = sum(1 for fault in task.faults if wall - fault.time <= budget.per)
        if recent > budget.max:
            return f"its restart budget is spent: {budget.max} in {budget.per} (`restart.{task.id.role}`)"
    return ""


def _fails_again(state: JobState, task: Task, cause: str, wall: float, message: str) -> str:
    """Why another attempt of the task would end as this one did, or ''."""
    if cause in MEMORY_CAUSES and memory_ends(task) > 1:
        return "it ran out of memory again, though it had been given more"
    if cause not in EXCEPTIONS:
        return "" if CAUSES[cause].retried else _NOT_RETRIED
    program = bool(state.config.job.program)
    if message.partition(":")[0] in _OWN_FAULTS or not (program or CAUSES[cause].retried):
        return _NOT_RETRIED
    same = _times_of_exception(state, task, wall, message)
    return "the same exception came again" if same > (_SAME_OF_PROGRAM if program else _SAME_OF_MODEL) else ""


def memory_ends(task: Task) -> int:
    """How often the task ran out of memory; the attempts after the first time have more."""
    return sum(fault.cause in MEMORY_CAUSES for fault in task.faults)


def _times_of_exception(state: JobState, task: Task, wall: float, message: str) -> int:
    per, wanted = state.config.job.restart.of(task.id.role).per, without_numbers(message)
    tasks = (task,) if state.config.job.program else state.tasks.values()
    return sum(
        fault.cause in EXCEPTIONS and wall - fault.time <= per and without_numbers(fault.message) == wanted
        for other in tasks
        for fault in other.faults
    )


def without_numbers(message: str) -> str:
    """What two cases of one exception have in common."""
    return _NUMBERS.sub("#", message)


def pause_before_restart(state: JobState, task: Task, wall: float) -> float:
    """Seconds by `restart.backoff`; spread by role, index and attempt, so that tasks do not come back all at once."""
    backoff = state.config.job.restart.backoff
    recent = sum(wall - time <= backoff.reset for time in task.ends)
    if recent < 2:
        return 0.0
    part = jitter(f"{task.id} {task.id.attempt} {recent}")
    return float(min(backoff.max, backoff.initial * 2.0 ** (recent - 2)) * (0.75 + 0.5 * part))


def is_needed(state: JobState, task: Task) -> bool:
    """Whether a task that ended is wanted again: servers of a model are not once the chief is done."""
    if task.given_up or not state.is_wanted(task):
        return False
    return bool(state.config.job.program) or task.id.role != "ps" or state.chief.stage is not Stage.SUCCEEDED


def ends_generation(state: JobState, task: Task) -> bool:
    """Whether the others have to begin anew when this task is lost."""
    job = state.config.job
    counts = bool(state.cluster) or holds(state, task)
    return counts and task.id.role in job.listening and job.restarts_together and is_needed(state, task)


def holds(state: JobState, task: Task) -> bool:
    """Whether the task is a parameter server with a part of the model that may be kept."""
    return task.id.role == "ps" and task.id.index in state.holders


def generation_ended(state: JobState, task: Task, why: str) -> ev.GenerationEnded:
    """What becomes of the others when this task is lost, and why not all that `checkpoint.on_ps_loss` promises."""
    kept: tuple[int, ...] = ()
    if state.config.job.checkpoint.keeps_survivors:
        kept = tuple(index for index in state.holders if index != task.id.index)
        if missing := _cannot_keep(state, kept):
            kept, why = (), f"{why}; no partial recovery: {missing}"
    return ev.GenerationEnded(generation=state.generation, reason=why, manifest=state.newest_manifest, kept=kept)


def _cannot_keep(state: JobState, kept: tuple[int, ...]) -> str:
    if not state.newest_manifest:
        return "there is no checkpoint yet"
    if not kept:
        return "no parameter server is left that holds its variables"
    if not any(index in kept for index in POSITION_HOLDERS):
        return f"the data position is lost with {' and '.join(f'ps:{index}' for index in POSITION_HOLDERS)}"
    return ""


def go_on_without(context: Context, task: Task, cause: str, reason: str) -> bool:
    """Give up an optional task: an evaluator, or a worker beyond `min_success`; its files go to the others."""
    if not can_be_spared(context.state, task, cause):
        return False
    context.record(ev.TaskGivenUp(task=task.id, reason=reason))
    if task.stage is not Stage.REGISTERED:  # else its Child is told to end, and keeps its logs
        context.kill_container(task)
    return True


def can_be_spared(state: JobState, task: Task, cause: str) -> bool:
    """Whether the job goes on where this task ends with `cause` for good."""
    spec, wanted, program = state.spec(task.id.role), state.count_wanted(task.id.role), bool(state.config.job.program)
    if task.id.role == "evaluator":
        return spec.optional
    # What is wrong with data or code would only go on to the next worker.
    if task.id.role != "worker" or program or task is state.chief or cause in EXCEPTIONS:
        return False
    gone = sum((other.given_up and state.is_wanted(other)) or other is task for other in state.of_role("worker"))
    # A share such as 0.7 of 10 must not fail by the last bit of the product.
    return wanted - gone >= spec.min_success * wanted - 1e-9


def without_text(state: JobState) -> str:
    """`; without worker:3`, or nothing."""
    gone = [str(task.id) for task in state.tasks.values() if task.given_up]
    return f"; without {', '.join(gone)}" if gone else ""

"""Whether a task comes back, and who else with it. Pure."""

from afo.exits import CAUSES, MAX_FREE_RESTARTS
from afo_am.state import JobState
from afo_am.tasks import Stage, Task

#: Causes that are read off the last exception of a process.
_EXCEPTIONS = frozenset(
    {"user_exception", "data_error", "spec_error", "file_not_found", "permission_denied", "quality_gate",
     "model_error", "not_finite"}
)  # fmt: skip
#: What the interpreter finds wrong with code, whatever other tasks do.
_OWN_FAULTS = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError")


def give_up_reason(state: JobState, task: Task, cause: str, wall: float, message: str) -> str:
    """Why the job fails with this end of `task`, or '' when the task is started again."""
    entry = CAUSES[cause]
    budget = state.config.job.restart.of(task.id.role)
    if not entry.retried and not _may_be_an_echo(state, cause, message):
        return "this is not retried: it would fail again"
    if task.free_restarts > MAX_FREE_RESTARTS:
        return f"started again {MAX_FREE_RESTARTS} times without success"
    if entry.blame == "user":
        recent = sum(1 for time in task.faults if wall - time <= budget.per)
        if recent > budget.max:
            return f"its restart budget is spent: {budget.max} in {budget.per} (`restart.{task.id.role}`)"
    return ""


def is_needed(state: JobState, task: Task) -> bool:
    """Whether a task that ended is wanted again: servers of a model are not once the chief is done."""
    return bool(state.config.job.program) or task.id.role != "ps" or state.chief.stage is not Stage.SUCCEEDED


def ends_generation(state: JobState, task: Task) -> bool:
    """Whether the others have to begin anew when this task is lost."""
    job = state.config.job
    return bool(state.cluster) and task.id.role in job.listening and job.restarts_together and is_needed(state, task)


def _may_be_an_echo(state: JobState, cause: str, message: str) -> bool:
    """Whether a program's exception may come of another task's loss: libraries raise all sorts of them then."""
    return bool(state.config.job.program) and cause in _EXCEPTIONS and message.partition(":")[0] not in _OWN_FAULTS

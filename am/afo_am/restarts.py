"""Whether a task comes back. Pure."""

from afo.exits import CAUSES, MAX_FREE_RESTARTS
from afo_am.state import JobState
from afo_am.tasks import Task


def give_up_reason(state: JobState, task: Task, cause: str, wall: float) -> str:
    """Why the job fails with this end of `task`, or '' when the task is started again."""
    entry = CAUSES[cause]
    budget = state.config.job.restart.of(task.id.role)
    if not entry.retried:
        return "this is not retried: it would fail again"
    if task.free_restarts > MAX_FREE_RESTARTS:
        return f"started again {MAX_FREE_RESTARTS} times without success"
    if entry.blame == "user":
        recent = sum(1 for time in task.faults if wall - time <= budget.per)
        if recent > budget.max:
            return f"its restart budget is spent: {budget.max} in {budget.per} (`restart.{task.id.role}`)"
    return ""

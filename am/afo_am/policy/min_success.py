"""Optional tasks: an evaluator, and those of a model's workers beyond `min_success`. Pure."""

from afo.events import types as ev
from afo_am.policy.restarts import EXCEPTIONS
from afo_am.state.context import Context
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Stage, Task


def give_up(context: Context, task: Task, cause: str, reason: str) -> bool:
    """Go on without the task, if the job can; its files go to the others."""
    if not can_be_spared(context.state, task, cause):
        return False
    context.record(ev.TaskGivenUp(task=task.id, reason=reason))
    if task.stage is not Stage.REGISTERED:  # else its Child is told to end, and keeps its logs
        context.kill_container(task)
    return True


def can_be_spared(state: JobState, task: Task, cause: str) -> bool:
    """Whether the job goes on where this task ends with `cause` for good."""
    spec, wanted, program = state.spec(task.id.role), state.wanted(task.id.role), bool(state.config.job.program)
    if task.id.role == "evaluator":
        return spec.optional
    # What is wrong with data or code would only go on to the next worker.
    if task.id.role != "worker" or program or task is state.chief or cause in EXCEPTIONS:
        return False
    gone = sum((other.given_up and state.is_wanted(other)) or other is task for other in state.of_role("worker"))
    # A share such as 0.7 of 10 must not fail by the last bit of the product.
    return wanted - gone >= spec.min_success * wanted - 1e-9


def without(state: JobState) -> str:
    """`; without worker:3`, or nothing."""
    gone = [str(task.id) for task in state.tasks.values() if task.given_up]
    return f"; without {', '.join(gone)}" if gone else ""

"""The verdict on a job: the first one stands. Pure."""

from afo.events import types as ev
from afo.rpc.messages import TaskId
from afo_am.policy.gang import names
from afo_am.runtime.base import FinalState
from afo_am.state.context import Context
from afo_am.state.tasks import Task


def decide(context: Context, state: FinalState, cause: str, diagnostics: str, task: TaskId | None = None) -> None:
    """Reach a verdict, if there is none."""
    if not context.state.verdict:
        context.record(ev.JobEnding(state=state, cause=cause, diagnostics=diagnostics, first_task=task))


def not_allocated(context: Context, why: str, missing: list[Task], releases: int = 0) -> None:
    """The job has waited for too long, and gave back so often what it held; `why` says what it waits for."""
    limit = context.state.config.job.timeouts.allocate
    text = f"no container for {names(missing)} within {limit} (`timeouts.allocate`)"
    if releases:  # there were containers, but something was always missing
        times = f"{releases} times" if releases > 1 else "once"
        text = (
            f"never all of its tasks at once within {limit} (`timeouts.allocate`), though it gave back {times} "
            f"what it held; no container for {names(missing)}"
        )
    decide(context, "FAILED", "allocation_timeout", f"{text}{why and '; '}{why}", missing[0].id)

"""The verdict on a job, of which the first one stands, and the shutdown after it. Pure."""

from typing import cast

from afo.events import types as ev
from afo.rpc.messages import TaskId
from afo_am.policy.gang import names
from afo_am.policy.samples import TrainingSamples
from afo_am.runtime.base import FinalState
from afo_am.state import commands as c
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task

#: Children that heartbeat get this long to stop by themselves, upload their logs and exit.
GRACE_S = 20.0
#: After this the application ends even if the runtime never reported a container's end.
HARD_LIMIT_S = 60.0


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


class Shutdown:
    """Part of the core that ends what still runs, and the application once nothing does."""

    def __init__(self, context: Context, samples: TrainingSamples) -> None:
        self._context, self._samples = context, samples
        #: Monotonic clock of the verdict in this incarnation.
        self._since: float | None = None

    def go_on(self) -> None:
        """After the verdict: end what still runs; finish once nothing does."""
        context, state = self._context, self._context.state
        if state.finished:
            return
        self._since = context.now if self._since is None else self._since
        waited = context.now - self._since
        for task in state.tasks.values():
            if task.stage is not Stage.REGISTERED or waited > GRACE_S:
                self._kill_unless_leaving(task, waited)
        open_tasks = [task for task in state.tasks.values() if not self._is_over(task)]
        if not open_tasks or waited > HARD_LIMIT_S:
            self._finish()

    def _kill_unless_leaving(self, task: Task, waited: float) -> None:
        # A Child whose process ended uploads its logs and leaves by itself.
        if task.stage not in (Stage.SUCCEEDED, Stage.ENDED) or waited > GRACE_S:
            self._context.kill_container(task)

    def _is_over(self, task: Task) -> bool:
        never_asked_for = (task.id.role, task.id.index) not in self._context.state.requested
        gone = task.stage is Stage.ENDED and task.leaving is not None
        return task.container_over or (not task.handle and (never_asked_for or gone))

    def repeat(self) -> None:
        """An earlier incarnation finished and may have died before the application was ended."""
        state = self._context.state
        self._context.command(c.FinishJob(cast(FinalState, state.verdict), state.diagnostics))

    def _finish(self) -> None:
        context, state = self._context, self._context.state
        self._samples.last()
        context.record(
            ev.JobFinished(
                state=state.verdict, cause=state.verdict_cause, diagnostics=state.diagnostics,
                metrics=state.evaluations.metrics, export=state.evaluations.exported,
                samples=state.samples, step=max(state.step, context.rates.step),
                seconds=max(0.0, context.wall - state.started), core_hours=state.core_seconds / 3600,
                memory_gb_hours=state.memory_mib_seconds / 1024 / 3600, restarts=state.restarts,
                train_seconds=max(0.0, state.train_ended - state.train_began), input_wait=context.rates.input_wait,
                input_bound=context.rates.input_bound, bad_records=state.splits.bad_records,
            )
        )  # fmt: skip
        self.repeat()

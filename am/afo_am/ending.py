"""How a job ends: the verdict, the waiting for containers, and the clocks that lead to a verdict. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from afo.events import types as ev
from afo.failures.causes import CAUSES
from afo.rpc.messages import TaskId
from afo_am import commands as c
from afo_am import repair, spare
from afo_am.gang import is_welcome_any_time, names
from afo_am.runtime.base import FinalState
from afo_am.state import STOPPED
from afo_am.tasks import LIVE, Stage, Task

if TYPE_CHECKING:
    from afo_am.core import Core

#: Children that heartbeat get this long to stop by themselves, upload their logs and exit.
GRACE_S = 20.0
#: After this the application ends even if the runtime never reported a container's end.
HARD_LIMIT_S = 60.0
#: A Child that registered and is silent for so long, beside three heartbeats, is given up.
SILENCE_S = 30.0
#: The AM looks at the clock every second or so; where it did not for so long, it stood still itself.
STANDSTILL_S = 10.0
#: A request that has not been answered for so long is made again. skein gives the priority of a request that was
#: answered to the next one; if that asks for less, and in the same heartbeat, YARN takes the end of the old one for an
#: end of the new one (seen on Hadoop 3.4.1 and 3.4.3), and it would wait for ever. After a long wait less often, each
#: time after so large a part of it: who asks again loses the node that YARN may have reserved.
ASK_AGAIN_S, ASK_AGAIN_PART = 60.0, 0.1
#: A container that runs without a Child registering is given up after this.
SETUP_S = 300.0
#: A Child that was told to end said so; the runtime has this long to say why.
STOPPED_S = 10.0


class Ending:
    """Part of the core that ends things."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: Monotonic clock of the verdict in this incarnation.
        self._since: float | None = None
        #: Monotonic clock of the last look at it.
        self._looked = core.now

    def decide(self, state: FinalState, cause: str, diagnostics: str, task: TaskId | None = None) -> None:
        """Reach a verdict; the first one stands."""
        if not self._core.state.verdict:
            self._core.record(ev.JobEnding(state=state, cause=cause, diagnostics=diagnostics, first_task=task))

    def go_on(self) -> None:
        """After the verdict: end what still runs; finish once nothing does."""
        core, state = self._core, self._core.state
        if state.finished:
            return
        self._since = core.now if self._since is None else self._since
        waited = core.now - self._since
        for task in state.tasks.values():
            if task.stage is not Stage.REGISTERED or waited > GRACE_S:
                self._kill_unless_leaving(task, waited)
        open_tasks = [task for task in state.tasks.values() if not self._is_over(task)]
        if not open_tasks or waited > HARD_LIMIT_S:
            self._finish()

    def _kill_unless_leaving(self, task: Task, waited: float) -> None:
        # A Child whose process ended uploads its logs and leaves by itself.
        if task.stage not in (Stage.SUCCEEDED, Stage.ENDED) or waited > GRACE_S:
            self._core.kill_container(task)

    def _is_over(self, task: Task) -> bool:
        never_asked_for = (task.id.role, task.id.index) not in self._core.state.requested
        gone = task.stage is Stage.ENDED and task.leaving is not None
        return task.container_over or (not task.handle and (never_asked_for or gone))

    def repeat(self) -> None:
        """An earlier incarnation finished and may have died before the application was ended."""
        state = self._core.state
        self._core.command(c.FinishJob(cast(FinalState, state.verdict), state.diagnostics))

    def _finish(self) -> None:
        core, state = self._core, self._core.state
        core.sample_last()
        core.record(
            ev.JobFinished(
                state=state.verdict, cause=state.verdict_cause, diagnostics=state.diagnostics,
                metrics=state.evaluations.metrics, export=state.evaluations.exported,
                samples=state.samples, step=max(state.step, core.rates.step),
                seconds=max(0.0, core.wall - state.started), core_hours=state.core_seconds / 3600,
                memory_gb_hours=state.memory_mib_seconds / 1024 / 3600, restarts=state.restarts,
                train_seconds=max(0.0, state.train_ended - state.train_began), input_wait=core.rates.input_wait,
                input_bound=core.rates.input_bound, bad_records=state.splits.bad_records,
            )
        )  # fmt: skip
        self.repeat()

    # -- clocks ------------------------------------------------------------------------------------------------------

    def look_at_the_clock(self) -> None:
        """Give up what has been silent, or has waited, for too long."""
        self._forgive_own_standstill()
        core, timeouts = self._core, self._core.state.config.job.timeouts
        for task in list(core.state.tasks.values()):
            if task.stage in LIVE and not core.state.verdict:
                self._look_at(task)
        changed = core.rates.changed_at if core.rates.changed_at is not None else core.begun
        if core.state.ready and core.now - changed > timeouts.stall:
            self._stalled()
        if core.wall - core.state.started > timeouts.job:
            self.decide("FAILED", "job_timeout", f"the job took longer than {timeouts.job} (`timeouts.job`)")

    def _stalled(self) -> None:
        core, limit = self._core, self._core.state.config.job.timeouts.stall
        waits = repair.waiting(core.state, "chief", "worker", "ps")
        if not waits:
            where = core.stalls.places()
            text = f"no task made progress for {limit} (`timeouts.stall`){where and '; '}{where}"
            self.decide("FAILED", "stalled", text)
            return
        task, what = waits[0]
        if repair.is_overdue(core.state, what, core.wall):  # until then a person has time, and it is no standstill
            text = f"{task.id} on {what.host or 'some host'}: it {repair.reason(core.state, what, core.wall)}"
            self.decide("FAILED", what.cause, text, task.id)

    def _forgive_own_standstill(self) -> None:
        """Nobody was silent towards a process that was stopped, or whose machine was."""
        now = self._core.now
        stood, self._looked = now - self._looked, now
        if stood > STANDSTILL_S:
            for task in self._core.state.tasks.values():
                task.last_seen = min(now, task.last_seen + stood)

    def _look_at(self, task: Task) -> None:
        core = self._core
        silent = core.now - task.last_seen
        waited = core.now - task.waiting_since
        beat = max(1.0, len(core.state.tasks) / 800)
        limit = core.state.config.job.timeouts.allocate
        if task.stage is Stage.REQUESTED and waited > limit and not is_welcome_any_time(core.state, task):
            if spare.can_be_spared(core.state, task, "allocation_timeout"):
                core.task_lost(task, "allocation_timeout", f"no container within {limit} (`timeouts.allocate`)")
            else:
                self.not_allocated([other for other in core.state.tasks.values() if other.stage is Stage.REQUESTED])
        elif task.stage is Stage.REQUESTED and silent > max(ASK_AGAIN_S, ASK_AGAIN_PART * waited):
            core.task_lost(task, "request_unanswered", f"no container for {silent:.0f} s; asking again")
        elif task.stage is Stage.ALLOCATED and silent > SETUP_S:
            core.task_lost(task, "launch_failed", f"its Child did not register within {SETUP_S:g} s")
        elif task.stopped and silent > STOPPED_S:
            core.task_ended(task, STOPPED, task.stopped.code, CAUSES[STOPPED].summary, task.stopped)
        elif task.stage is Stage.REGISTERED and silent > SILENCE_S + 3 * beat:
            core.task_lost(task, "child_silent", f"no heartbeat for {silent:.0f} s", silent)

    def not_allocated(self, missing: list[Task], releases: int = 0) -> None:
        """The job has waited for too long, and gave back so often what it held."""
        limit, why = self._core.state.config.job.timeouts.allocate, self._core.waiting.words()
        text = f"no container for {names(missing)} within {limit} (`timeouts.allocate`)"
        if releases:  # there were containers, but something was always missing
            times = f"{releases} times" if releases > 1 else "once"
            text = (
                f"never all of its tasks at once within {limit} (`timeouts.allocate`), though it gave back {times} "
                f"what it held; no container for {names(missing)}"
            )
        self.decide("FAILED", "allocation_timeout", f"{text}{why and '; '}{why}", missing[0].id)

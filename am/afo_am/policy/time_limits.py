"""Time limits: a task that is silent, or waits, for too long is given up, or the job is. Pure."""

from afo.failures.causes import CAUSES
from afo_am.policy.gang import is_welcome_any_time
from afo_am.policy.hangs import Hangs
from afo_am.policy.lifecycle import Lifecycle
from afo_am.policy.restarts import can_be_spared
from afo_am.policy.verdict import decide, not_allocated
from afo_am.policy.waiting import Waiting
from afo_am.state import manual_repair
from afo_am.state.context import Context
from afo_am.state.job_state import STOPPED
from afo_am.state.tasks import LIVE, Stage, Task

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


class TimeLimits:
    """Looks at each task, and at the job."""

    def __init__(self, context: Context, tasks: Lifecycle, hangs: Hangs, waiting: Waiting) -> None:
        self._context, self._tasks, self._hangs, self._waiting = context, tasks, hangs, waiting
        #: Monotonic clock of the last look, and of the last one that found nobody with anything to read.
        self._looked = context.now
        self._starved = context.begun

    def look(self) -> None:
        """Give up what has been silent, or has waited, for too long."""
        self._forgive_own_standstill()
        context, timeouts = self._context, self._context.state.config.job.timeouts
        for task in list(context.state.tasks.values()):
            if task.stage in LIVE and not context.state.verdict:
                self._look_at(task)
        if context.state.splits.starved:
            self._starved = context.now
        changed = max(context.begun, context.rates.changed_at or context.begun, context.works.last, self._starved)
        if context.state.ready and context.now - changed > timeouts.stall:
            self._end_stalled_job()
        if context.wall - context.state.started > timeouts.job:
            decide(context, "FAILED", "job_timeout", f"the job took longer than {timeouts.job} (`timeouts.job`)")

    def _end_stalled_job(self) -> None:
        context, limit = self._context, self._context.state.config.job.timeouts.stall
        waits = manual_repair.waiting(context.state, "chief", "worker", "ps")
        if not waits:
            where = self._hangs.places()
            text = f"no task made progress for {limit} (`timeouts.stall`){where and '; '}{where}"
            decide(context, "FAILED", "stalled", text)
            return
        task, what = waits[0]
        if manual_repair.is_overdue(context.state, what, context.wall):
            # Until then a person has time, and it is no standstill.
            reason = manual_repair.reason(context.state, what, context.wall)
            text = f"{task.id} on {what.host or 'some host'}: it {reason}"
            decide(context, "FAILED", what.cause, text, task.id)

    def _forgive_own_standstill(self) -> None:
        """Nobody was silent towards a process that was stopped, or whose machine was."""
        now = self._context.now
        stood, self._looked = now - self._looked, now
        if stood > STANDSTILL_S:
            for task in self._context.state.tasks.values():
                task.last_seen = min(now, task.last_seen + stood)

    def _look_at(self, task: Task) -> None:
        context = self._context
        silent = context.now - task.last_seen
        waited = context.now - task.waiting_since
        beat = max(1.0, len(context.state.tasks) / 800)
        limit = context.state.config.job.timeouts.allocate
        if task.stage is Stage.REQUESTED and waited > limit and not is_welcome_any_time(context.state, task):
            if can_be_spared(context.state, task, "allocation_timeout"):
                self._tasks.task_lost(task, "allocation_timeout", f"no container within {limit} (`timeouts.allocate`)")
            else:
                not_allocated(
                    context,
                    self._waiting.words(),
                    [other for other in context.state.tasks.values() if other.stage is Stage.REQUESTED],
                )
        elif task.stage is Stage.REQUESTED and silent > max(ASK_AGAIN_S, ASK_AGAIN_PART * waited):
            self._tasks.task_lost(task, "request_unanswered", f"no container for {silent:.0f} s; asking again")
        elif task.stage is Stage.ALLOCATED and silent > SETUP_S:
            self._tasks.task_lost(task, "launch_failed", f"its Child did not register within {SETUP_S:g} s")
        elif task.stopped and silent > STOPPED_S:
            self._tasks.task_ended(task, STOPPED, task.stopped.code, CAUSES[STOPPED].summary, task.stopped)
        elif task.stage is Stage.REGISTERED and silent > SILENCE_S + 3 * beat:
            self._tasks.task_lost(task, "child_silent", f"no heartbeat for {silent:.0f} s", silent)

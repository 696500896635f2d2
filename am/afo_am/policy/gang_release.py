"""Release of containers for want of the rest of the gang, so that other jobs can go on. Pure."""

from afo.events import types as ev
from afo.formats.units import Duration
from afo_am.policy.gang import missing, names, stands_still
from afo_am.policy.lifecycle import Lifecycle
from afo_am.policy.verdict import not_allocated
from afo_am.policy.waiting import Waiting
from afo_am.state.context import Context
from afo_am.state.tasks import LIVE, Stage, Task

#: A gang that is not there is looked for again after this, not with every heartbeat.
_LOOK_AGAIN_S = 0.2


class GangRelease:
    """Part of the core that gives containers back."""

    def __init__(self, context: Context, tasks: Lifecycle, waiting: Waiting) -> None:
        self._context, self._tasks, self._waiting = context, tasks, waiting
        #: Monotonic clock when a generation could not form for want of its gang; None since it could.
        self._absent_at: float | None = None

    def is_there(self) -> bool:
        """Whether a generation may form."""
        now = self._context.now
        if self._absent_at is not None and now - self._absent_at < _LOOK_AGAIN_S:
            return False
        self._absent_at = now if missing(self._context.state) else None
        return self._absent_at is None

    def look(self) -> None:
        """Give everything back when the wait for the rest has become too long."""
        context, state = self._context, self._context.state
        patience, timeouts = state.gang, state.config.job.timeouts
        if not stands_still(state) or context.wall < patience.ask_at:
            return
        lacking = missing(state)
        if not lacking:
            return
        if patience.releases and context.wall - patience.begun > timeouts.allocate:
            not_allocated(context, self._waiting.words(), lacking, patience.releases)
        elif context.wall - patience.since > patience.limit(timeouts.gang):
            self._release(lacking)

    def _release(self, lacking: list[Task]) -> None:
        context, patience, limit = self._context, self._context.state.gang, self._context.state.config.job.timeouts.gang
        tasks = list(context.state.tasks.values())
        held = sum(task.stage in (Stage.ALLOCATED, Stage.REGISTERED) for task in tasks)
        if not held:
            return  # nobody waits for us
        waited, pause = Duration(round(context.wall - patience.since)), patience.pause(limit)
        text = f"no container for {names(lacking)} in {waited} (`timeouts.gang`); other jobs may have them meanwhile"
        context.record(ev.GangReleased(missing=names(lacking), held=held, waited_s=float(waited), pause_s=pause))
        for task in tasks:
            if task.stage in LIVE:
                self._tasks.task_lost(task, "gang_released", text)

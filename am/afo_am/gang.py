"""All of a job's gang, or nothing: two jobs that hold half of a cluster each must not wait for each other. Pure.

The gang is what a job cannot do without: all parameter servers, the chief, a minimum of workers, and at the start the
evaluator, for which the chief may have to wait at the end. No generation forms without it. While it is not complete
and no container comes for `timeouts.gang`, the job gives all its containers back, pauses, and asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Elastic
from afo_am.tasks import LIVE, Stage, Task

if TYPE_CHECKING:
    from afo_am.core import Core
    from afo_am.state import JobState

#: A gang that is not there is looked for again after this, not with every heartbeat.
_LOOK_AGAIN_S = 0.2
#: Tasks that a message names.
_NAMED = 8


def missing(state: JobState) -> list[Task]:
    """Tasks that the gang lacks; empty when it is there."""
    job = state.config.job
    whole = {"chief", "ps"} | ({"worker"} if job.program else {"evaluator"} if state.generation == 1 else set())
    waiting = [task for task in state.tasks.values() if task.stage in (Stage.REQUESTED, Stage.ENDED)]
    waiting = [task for task in waiting if state.is_wanted(task) and not task.given_up]
    waiting = [task for task in waiting if not state.spec(task.id.role).optional]
    needed = [task for task in waiting if task.id.role in whole or task is state.chief]
    if job.program:
        return needed
    workers = [task for task in waiting if task.id.role == "worker"]
    instances = job.roles["worker"].instances
    minimum = instances.min if isinstance(instances, Elastic) else 1
    short = len(workers) - (state.workers - minimum)
    others = [task for task in workers if task is not state.chief]
    return needed + others[: max(0, short - (len(workers) - len(others)))]


def is_welcome_any_time(state: JobState, task: Task) -> bool:
    """An elastic worker: once the others train, nobody waits for it."""
    return (
        bool(state.cluster)
        and task.id.role == "worker"
        and task is not state.chief
        and isinstance(state.spec("worker").instances, Elastic)
        and not state.config.job.program
    )


def names(tasks: list[Task]) -> str:
    """The first of them, for a message."""
    return ", ".join(str(task.id) for task in tasks[:_NAMED]) + (" …" if len(tasks) > _NAMED else "")


class Gang:
    """Part of the core that gives containers back."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: Monotonic clock when a generation could not form for want of its gang; None since it could.
        self._absent_at: float | None = None

    def is_there(self) -> bool:
        """Whether a generation may form."""
        now = self._core.now
        if self._absent_at is not None and now - self._absent_at < _LOOK_AGAIN_S:
            return False
        self._absent_at = now if missing(self._core.state) else None
        return self._absent_at is None

    def look(self) -> None:
        """Give everything back when the wait for the rest has become too long."""
        core, state = self._core, self._core.state
        patience, timeouts = state.gang, state.config.job.timeouts
        if not _stands_still(state) or core.wall < patience.ask_at:
            return
        lacking = missing(state)
        if not lacking:
            return
        if patience.releases and core.wall - patience.begun > timeouts.allocate:
            core.ending.not_allocated(lacking, patience.releases)
        elif core.wall - patience.since > patience.limit(timeouts.gang):
            self._release(lacking)

    def _release(self, lacking: list[Task]) -> None:
        core, patience, limit = self._core, self._core.state.gang, self._core.state.config.job.timeouts.gang
        tasks = list(core.state.tasks.values())
        held = sum(task.stage in (Stage.ALLOCATED, Stage.REGISTERED) for task in tasks)
        if not held:
            return  # nobody waits for us
        waited, pause = Duration(round(core.wall - patience.since)), patience.pause(limit)
        text = f"no container for {names(lacking)} in {waited} (`timeouts.gang`); other jobs may have them meanwhile"
        core.record(ev.GangReleased(missing=names(lacking), held=held, waited_s=float(waited), pause_s=pause))
        for task in tasks:
            if task.stage in LIVE:
                core.task_lost(task, "gang_released", text)


def _stands_still(state: JobState) -> bool:
    """Nothing is trained or run that a release would undo."""
    return not state.cluster or not (state.ready or state.config.job.program)

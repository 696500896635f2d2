"""Elastic scaling: another number of workers on demand, and workers that are told to leave. Pure.

A worker that is to leave ends its process between two steps, so what it has applied and its file's position agree; the
file stays its own until its container is over, and then goes to another worker, who goes on where it stood.
"""

from __future__ import annotations

from afo.errors import NotFound, ProtocolError
from afo.events import types as ev
from afo.job import Elastic
from afo.rpc import messages as m
from afo_am.policy.lifecycle import Lifecycle
from afo_am.state.context import Context
from afo_am.state.tasks import LIVE, Stage, Task

#: A worker that was told to leave and has not after this is killed.
PATIENCE_S = 60.0


class Scaling:
    """Part of the core that lets workers go, and has them come."""

    def __init__(self, context: Context, tasks: Lifecycle) -> None:
        self._context, self._tasks = context, tasks

    def scale(self, number: int, user: str) -> m.ScaleReply:
        """Want another number of workers. Raises `ProtocolError` where the job file forbids it, or `NotFound`."""
        state = self._context.state
        self._check(number)
        before = state.workers
        if number != before:
            self._context.record(ev.WorkersScaled(user=user, number=number, before=before))
            self.look()
        return m.ScaleReply(before=before)

    def _check(self, number: int) -> None:
        state = self._context.state
        job, instances = state.config.job, state.spec("worker").instances
        place = f"worker={number}: `roles.worker.instances`"
        if state.verdict:
            raise NotFound(f"the job is {state.verdict}: it needs no worker any more")
        if job.program:
            raise ProtocolError(f"{place} of a `program` is fixed, for its tasks know each other; a `model` can scale")
        if not isinstance(instances, Elastic):
            raise ProtocolError(
                f"{place} is {instances} in the job file, which is fixed; submit it with `{{min: 1, max: {number}}}`, "
                "or what suits, to change it while the job runs"
            )
        if not instances.min <= number <= instances.max:
            raise ProtocolError(f"{place} of the job file allows {instances.min} to {instances.max}")

    def look(self) -> None:
        """Take away what holds no work; what does is told to leave (`ChildRpc`), and killed where it does not."""
        for task in self._context.state.of_role("worker"):
            if task.leaving and task.stage in LIVE:
                self._let_go(task, *task.leaving)

    def _let_go(self, task: Task, cause: str, why: str) -> None:
        context = self._context
        if task.stage is Stage.REGISTERED:
            if task.leaves_since is None:
                task.leaves_since = context.now
            if context.now - task.leaves_since > PATIENCE_S:
                context.kill_container(task)
        elif task.handle:  # before it has one there is nothing to give back
            self._tasks.task_lost(task, cause, why)

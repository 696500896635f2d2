"""The runtime's news about containers, and what the core makes of them. Pure."""

from __future__ import annotations

from afo.events import types as ev
from afo.failures.causes import CAUSES
from afo.failures.classify import classify_container
from afo_am.policy import excluded_hosts
from afo_am.policy.lifecycle import Lifecycle, without_frames
from afo_am.policy.verdict import decide
from afo_am.runtime.base import ContainerInfo
from afo_am.state import commands as c
from afo_am.state.context import Context
from afo_am.state.job_state import STOPPED
from afo_am.state.tasks import LIVE, Stage, Task


class Containers:
    """Part of the core that follows containers."""

    def __init__(self, context: Context, tasks: Lifecycle) -> None:
        self._context, self._tasks = context, tasks

    def record_placement(self, placed: c.ContainerPlaced) -> None:
        """The runtime took a request."""
        self._context.record(ev.ContainerAssigned(task=placed.task, handle=placed.handle))
        task = self._context.state.task(placed.task)
        if task is None or self._context.state.verdict:
            self._context.kill_handle(placed.handle)

    def observe_containers(self, seen: c.ContainersSeen) -> None:
        """The runtime listed all containers."""
        by_handle = {task.handle: task for task in self._context.state.tasks.values() if task.handle}
        for info in seen.containers:
            task = by_handle.get(info.handle)
            if task is None or (task.stage is Stage.ENDED and info.state != "ended"):
                if info.state != "ended":
                    self._context.kill_handle(info.handle)
            elif info.state == "running" and not task.running_since and task.stage in LIVE:
                task.waiting_since = 0.0
                self._context.record(
                    ev.ContainerRunning(task=task.id, handle=info.handle, container=info.container, host=info.host)
                )
                excluded_hosts.refuse(self._context, self._tasks, task, info.host)
            elif info.state == "ended" and not task.container_over:
                self._container_over(task, info)

    def _container_over(self, task: Task, info: ContainerInfo) -> None:
        if task.stage in LIVE:
            # The Child's own report is the truth; without one, the container was taken from us.
            cause = classify_container(info.diagnostics, info.exit_code)
            text = "the container ended without a report of its Child"
            if task.stopped and cause == "container_lost":
                cause, text = STOPPED, CAUSES[STOPPED].summary
            self._tasks.task_ended(
                task, cause, info.exit_code, without_frames(info.diagnostics) or text, task.stopped,
                self._orphan_s(task) if cause == "orphaned" else 0.0,
            )  # fmt: skip
        self._context.record(
            ev.ContainerEnded(task=task.id, handle=info.handle, diagnostics=info.diagnostics, exit_code=info.exit_code)
        )

    def _orphan_s(self, task: Task) -> float:
        """How long ago it ended itself: it had waited for so long since it was heard of."""
        return max(0.0, self._context.unheard_s(task) - self._context.state.config.job.timeouts.orphan)

    def record_refusal(self, failed: c.CommandFailed) -> None:
        """The runtime refuses a container."""
        task = self._context.state.task(failed.task)
        if task is None or task.stage not in LIVE:
            return
        self._context.record(ev.ContainerEnded(task=failed.task, handle="", diagnostics=failed.message))
        if self._context.state.verdict:
            self._tasks.task_ended(task, "launch_failed", None, failed.message)
            return
        self._context.record(ev.TaskEnded(task=failed.task, cause="launch_failed", code=None, message=failed.message))
        decide(self._context, "FAILED", "launch_failed", f"{failed.task}: {failed.message}", failed.task)

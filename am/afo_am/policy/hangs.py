"""Hang detection: a busy task without a step has its stacks taken once, which shows where it hangs. Pure.

A worker that hangs for longer, while the others train, is replaced: the file that it holds would keep the job waiting.
So is, where all workers hang, a parameter server that does not answer: they wait for it. An evaluator that was stopped
by a signal keeps nobody waiting, and nobody would miss it: it is replaced as well.
"""

from __future__ import annotations

from msgspec import Struct

from afo.events import types as ev
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo_am.policy.lifecycle import Lifecycle
from afo_am.policy.orders import MASTER, MAX_OPEN, Orders
from afo_am.state.context import Context
from afo_am.state.tasks import Stage, Task

#: Phases in which counters move; a task that waits for others is not to blame for standing still.
_BUSY = frozenset({"restoring", "initializing", "training", "saving", "evaluating", "exporting"})
#: So many times `timeouts.hang`, and a worker is replaced.
_PATIENCE = 3
#: Characters of the stacks that the journal keeps; the task's stderr has all.
_KEPT = 4000


class _Seen(Struct):
    """What one attempt reported last, since when (monotonic clock), and the order for its stacks; 0 before."""

    progress: Progress | None
    since: float
    order: int = 0
    place: str = ""
    #: Of a parameter server that it does not answer, of others that they were stopped.
    unresponsive: str = ""


class Hangs:
    """Part of the core that watches single tasks; `timeouts.stall` is about all of them together."""

    def __init__(self, context: Context, tasks: Lifecycle, orders: Orders) -> None:
        self._context, self._tasks, self._orders = context, tasks, orders
        orders.listeners.append(self.record_stall)
        self._seen: dict[m.TaskId, _Seen] = {}
        #: Evaluators whose processes are stopped, since when (monotonic clock).
        self._halted: dict[m.TaskId, float] = {}

    def look(self) -> None:
        """Ask for the stacks of what has stood still for `timeouts.hang`."""
        tasks = [task for task in self._context.state.tasks.values() if task.stage is Stage.REGISTERED]
        self._seen = {task.id: self._update_seen(task) for task in tasks}
        hanging = [task for task in tasks if self._hangs(task)]
        for task in hanging:
            self._ask(task)
        trainers = [task for task in tasks if task.id.role in ("chief", "worker")]
        servers = [task for task in tasks if task.id.role == "ps" and task.process_alive]
        if trainers and all(task in hanging for task in trainers):
            still = self._context.now - max(self._seen[task.id].since for task in trainers)
            self._look_at_servers(servers, still)
        else:
            moved = max((self._seen[task.id].since for task in trainers), default=self._context.now)
            self._seen |= {server.id: _Seen(server.progress, moved) for server in servers}
            self._replace([task for task in trainers if task in hanging])

        self._look_at_evaluators([task for task in tasks if task.id.role == "evaluator"])

    def _look_at_evaluators(self, evaluators: list[Task]) -> None:
        now, patience = self._context.now, _PATIENCE * self._context.state.config.job.timeouts.hang
        self._halted = {task.id: self._halted.get(task.id, now) for task in evaluators if task.halted}
        for task in evaluators:
            still = now - self._halted.get(task.id, now)
            if still > patience:
                self._tasks.task_lost(task, "unresponsive", f"{task.halted}, for {still:.0f} s", still)

    def _look_at_servers(self, servers: list[Task], still: float) -> None:
        """All trainers may be waiting for one of them, for `still` seconds now."""
        for server in servers:
            self._ask(server)
            if words := self._seen[server.id].unresponsive:
                self._tasks.task_lost(server, "unresponsive", f"{words}, and all workers wait", still)

    def _replace(self, hanging: list[Task]) -> None:
        """Those that have hung for long; with all of them the fault may lie elsewhere."""
        for task in hanging:
            seen = self._seen[task.id]
            still = self._context.now - seen.since
            training = task.progress is not None and task.progress.phase in ("training", "saving")
            patience = _PATIENCE * self._context.state.config.job.timeouts.hang
            if training and still > patience and not self._is_being_read(task.id, seen):
                cause, why = _describe_cause(seen)
                self._tasks.task_lost(task, cause, f"no step for {still:.0f} s while others trained{why}", still)

    def _update_seen(self, task: Task) -> _Seen:
        before, worked = self._seen.get(task.id), self._context.works.at(task)
        if before is not None and not _is_beyond(task.progress, before.progress):
            return before if worked <= before.since else _Seen(task.progress, worked)
        return _Seen(task.progress, self._context.now)

    def _hangs(self, task: Task) -> bool:
        limit = self._context.state.config.job.timeouts.hang
        busy = task.process_alive and task.progress is not None and task.progress.phase in _BUSY
        return busy and self._context.now - self._seen[task.id].since > limit

    def _ask(self, task: Task) -> None:
        """Unless they are being read already: a process is stopped meanwhile, and shows itself to one at a time."""
        seen, orders = self._seen[task.id], self._orders
        if not seen.order and len(orders.open_of(task.id)) < MAX_OPEN and not orders.is_read(task.id):
            seen.order = orders.place(task, "stacks", MASTER)

    def _is_being_read(self, task: m.TaskId, seen: _Seen) -> bool:
        """Its stacks are on their way, which its Child bounds: they say why it is replaced."""
        return any(given.order.order == seen.order for given in self._orders.open_of(task))

    def record_stall(self, result: m.OrderResult) -> None:
        """An order came to its end; if it was asked for here, its result is an event."""
        seen = self._seen.get(result.task)
        if seen is None or seen.order != result.order:
            return
        seen.place, seen.unresponsive = result.place, result.unresponsive
        self._context.record(
            ev.TaskStalled(
                task=result.task, seconds=round(self._context.now - seen.since), place=result.place,
                stacks=result.output[:_KEPT], unresponsive=result.unresponsive,
            )
        )  # fmt: skip

    def places(self) -> str:
        """Where the tasks hang whose stacks were taken; '' if none were."""
        tasks = self._context.state.tasks.values()
        silent = [f"{task.id}: {task.halted}" for task in tasks if task.halted and task.id in self._halted]
        silent += [f"{task}: {seen.unresponsive}" for task, seen in self._seen.items() if seen.unresponsive]
        known = [f"{task} stands in {seen.place}" for task, seen in self._seen.items() if seen.place]
        return "; ".join((silent + known)[:3])


def _describe_cause(seen: _Seen) -> tuple[str, str]:
    """The cause, and its words: what stopped the process from outside is not the fault of the program."""
    if seen.unresponsive:
        return "unresponsive", f"; {seen.unresponsive}"
    return "hung", f"; it stands in {seen.place}" if seen.place else ""


def _is_beyond(progress: Progress | None, before: Progress | None) -> bool:
    if progress is None or before is None:
        return progress is not before
    return progress.is_beyond(before)

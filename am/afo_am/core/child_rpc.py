"""The calls of Children: who registers, what its heartbeat is answered, how its process ended. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from afo import __version__
from afo.events import types as ev
from afo.job import Role
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo_am.policy import excluded_hosts, programs
from afo_am.policy.gang_release import GangRelease
from afo_am.policy.lifecycle import Lifecycle
from afo_am.policy.orders import Orders
from afo_am.policy.restarts import holds
from afo_am.policy.verdict import decide
from afo_am.state.context import Context
from afo_am.state.job_state import JobState
from afo_am.state.tasks import LIVE, Stage, Task


class ChildRpc:
    """Part of the core that talks to Children."""

    def __init__(self, context: Context, tasks: Lifecycle, orders: Orders, gang: GangRelease) -> None:
        self._context, self._tasks, self._orders, self._gang = context, tasks, orders, gang

    def register(self, request: m.RegisterRequest) -> m.Directive:
        """A Child is up."""
        if request.afo_version != __version__ or request.protocol != m.PROTOCOL:
            return self._refuse_version(request)
        task = self._context.state.task(request.task)
        if task is None or task.stage not in LIVE or self._context.state.verdict:
            return self._directive_end("this attempt is not wanted any more")
        task.last_seen = self._context.now
        task.waiting_since = 0.0
        if task.stage is not Stage.REGISTERED:
            self._context.record(
                ev.TaskRegistered(
                    task=request.task, container=request.container, host=request.host, pid=request.pid,
                    log_url=request.log_url, environment=request.environment,
                )
            )  # fmt: skip
            if excluded_hosts.refuse(self._context, self._tasks, task, request.host):
                return self._directive_end("the job avoids this host")
        return self._directive(task)

    def _refuse_version(self, request: m.RegisterRequest) -> m.Directive:
        text = (
            f"the container of {request.task} on {request.host} has afo {request.afo_version} "
            f"(protocol {request.protocol}), the job was submitted with afo {__version__} (protocol {m.PROTOCOL}); "
            "put the same version into `environment.python`"
        )
        decide(self._context, "FAILED", "version_mismatch", text, request.task)
        return self._directive_end(text)

    def beat(self, request: m.HeartbeatRequest) -> m.Directive:
        """A Child lives."""
        task = self._context.state.task(request.task)
        if task is None or task.stage is not Stage.REGISTERED:
            return self._directive_end("this attempt is not wanted any more")
        task.last_seen = self._context.now
        task.process_alive, task.usage = request.process_alive, request.usage
        if not self._orders.is_read(task.id):  # who reads its stacks stops it meanwhile
            task.halted = request.halted
        if request.process_alive:
            self._context.works.take(self._context.state, task, request.work, self._context.now)
        task.progress = request.progress  # None in place of what the process before it did
        if request.progress is not None:
            counts = self._counts(task, request.generation, request.progress)
            if counts or not self._context.state.stays(task):
                self._context.rates.take(task.id, request.progress, self._context.now)
            if request.process_alive and counts:
                self._note_work(task, request.progress)
        if request.address and request.generation == self._context.state.generation and not self._context.state.verdict:
            task.address, task.address_generation = request.address, request.generation
            self._form_generation(task)
        directive, orders = self._directive(task), self._orders.confirm_taken(task, request.orders)
        return replace(directive, orders=orders) if orders else directive

    def _note_work(self, task: Task, progress: Progress) -> None:
        """Write down, once, that the task's process is at work."""
        if not task.at_work and _is_at_work(task.id.role, progress) and not self._context.state.verdict:
            task.at_work = True
            self._context.record(ev.TaskAtWork(task=task.id, generation=self._context.state.generation))

    def _counts(self, task: Task, told: int, progress: Progress) -> bool:
        """Whether what a process does counts: it is of the present generation, or an evaluator of a model, of none."""
        state = self._context.state
        evaluates = task.id.role == "evaluator" and not state.config.job.program
        return evaluates or state.generation_of(task, told, progress) == state.generation

    def _form_generation(self, task: Task) -> None:
        state = self._context.state
        if not state.cluster:
            cluster = programs.form_cluster(state, self._context.now)
        else:
            cluster = {} if state.config.job.restarts_together else programs.replace_address(state, task)
        if cluster and (state.cluster or self._gang.is_there()):
            whole = cluster if state.config.job.program else {}
            self._context.record(
                ev.GenerationStarted(generation=state.generation, ps=cluster.get("ps", ()), cluster=whole)
            )

    def _directive(self, task: Task) -> m.Directive:
        state, role = self._context.state, task.id.role
        if state.verdict:
            return self._directive_end(f"the job is {state.verdict}")
        if task.given_up:
            return self._directive_end("the job goes on without this task")
        if task.leaving:
            return self._directive_end(task.leaving.why)
        beat = max(1.0, len(state.tasks) / 800)
        program = bool(state.config.job.program)
        starts = task.process_ends if task.not_before <= self._context.now else 0
        if role == "evaluator" and not program:  # it talks to no parameter server, so no generation ends for it
            return m.Directive(action="run", generation=1, starts=starts, heartbeat_s=beat)
        since = _since(state, task)
        if not state.cluster:
            return m.Directive(action="wait", generation=state.generation, since=since, heartbeat_s=min(beat, 0.3))
        return m.Directive(
            action="run", generation=state.generation, since=since, ps=state.ps, heartbeat_s=beat,
            num_workers=state.num_workers, splits_at_start=state.splits_at_start,
            is_chief=task is state.chief, cluster=state.cluster if program else {}, starts=starts,
        )  # fmt: skip

    def _directive_end(self, reason: str) -> m.Directive:
        return m.Directive(action="end", generation=self._context.state.generation, reason=reason)

    def report_exit(self, report: m.ExitReport) -> m.ExitReply:
        """A Child's process ended."""
        task = self._context.state.task(report.task)
        if task is None or task.stage not in LIVE:
            return m.ExitReply()
        if task.stage is Stage.REGISTERED:
            self._take_last_progress(task, report)
        return m.ExitReply(stays=self._tasks.process_ended(task, report))

    def _take_last_progress(self, task: Task, report: m.ExitReport) -> None:
        """A short process may end between two heartbeats; one of a lost generation made steps that were undone."""
        if report.progress is not None and self._counts(task, report.generation, report.progress):
            self._context.rates.take(task.id, report.progress, self._context.now)
            self._note_work(task, report.progress)


def _since(state: JobState, task: Task) -> int:
    """Generation of the oldest process of the task that may go on in the present one; 0 for none but its own."""
    if holds(state, task):
        return state.holders[task.id.index].generation
    return 1 if state.stays(task) else 0


def _is_at_work(role: Role, progress: Progress) -> bool:
    """A parameter server's work shows in the workers' steps alone."""
    if role == "evaluator":
        return progress.phase in ("waiting", "evaluating", "running")
    return progress.phase == "running" or (role != "ps" and progress.samples > 0)

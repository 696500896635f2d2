"""The deciding core of the Application Master: a stimulus in, events and commands out. No I/O, no clock, no threads.

Whatever it decides is an event first: `Outcome.events` are durable before a command of the same outcome is carried
out or its reply is sent. The state follows the events (`afo_am.state`), so a restarted AM replays them and goes on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from afo import __version__
from afo import events as ev
from afo.am_config import AmConfig
from afo.errors import AfoError, PermissionDenied, ProtocolError
from afo.exits import CAUSES
from afo.rpc import messages as m
from afo_am import commands as c
from afo_am.diagnosis import MEMORY_CAUSES, cause_of, message_of
from afo_am.ending import Ending
from afo_am.rates import Rates
from afo_am.restarts import give_up_reason
from afo_am.runtime.base import ContainerInfo
from afo_am.state import ENDED_WITH_JOB, SUCCEEDED, JobState
from afo_am.tasks import LIVE, Stage, Task

#: Events after which something may have to follow at once; for all else the next tick is soon enough.
_UNSETTLING = (ev.TaskEnded, ev.GenerationEnded, ev.JobEnding)


@dataclass
class Outcome:
    """What follows from one stimulus."""

    reply: m.Message | None = None
    #: Goes to the sender in place of a reply.
    error: AfoError | None = None
    events: list[ev.AnyEvent] = field(default_factory=list)
    commands: list[c.Command] = field(default_factory=list)


class Core:
    """Decides. `wall` and `now` (monotonic) are seconds, given with every call."""

    def __init__(self, config: AmConfig, *, now: float) -> None:
        self.state = JobState(config)
        self.rates = Rates()
        #: The job's last event once it is there; what the verdict file holds.
        self.finished_event: ev.JobFinished | None = None
        self._now = now
        self._wall = 0.0
        self._out = Outcome()
        #: Handles already asked to end, so that one kill is sent once.
        self._killed: set[str] = set()
        self._begun = now
        self._last_sample = now
        self._ending = Ending(self)

    # -- the door ----------------------------------------------------------------------------------------------------

    def replay(self, event: ev.AnyEvent, wall: float) -> None:
        """Take in an event of an earlier incarnation."""
        self._apply(event, wall)

    def _apply(self, event: ev.AnyEvent, wall: float) -> None:
        self.state.apply(event, wall)
        if isinstance(event, ev.JobFinished):
            self.finished_event = event

    def start(self, started: ev.AmStarted, job_id: str, *, now: float, wall: float) -> Outcome:
        """Begin, or go on after a replay: ask for what has no container yet."""
        self._now, self._wall, self._out = now, wall, Outcome()
        if not self.state.started:
            self.record(self._job_started(job_id))
        if started.am_attempt > self.state.am_attempt > 0:
            self._end_containers_of_earlier_attempt()
        self.record(started)
        for task in self.state.tasks.values():
            task.last_seen = now
            if (task.id.role, task.id.index) not in self.state.requested:
                self._request(task, "the job begins")
            elif task.stage is Stage.REQUESTED and not task.handle and not self.state.verdict:
                # The request may have been made: a container that nobody knows is ended, its attempt refused.
                self._task_ended(task, "container_lost", None, "the AM was restarted while it asked for the container")
        if self.state.finished:
            self._ending.repeat()
        self._settle()
        return self._out

    def _end_containers_of_earlier_attempt(self) -> None:
        # YARN kills them when it starts another attempt of the application, and that one does not list them.
        text = "YARN ended it with the application attempt that had asked for it"
        for task in self.state.tasks.values():
            if task.stage in LIVE:
                self._task_ended(task, "container_lost", None, text)
            if task.handle and not task.container_over:
                self.record(ev.ContainerEnded(task=task.id, handle=task.handle, diagnostics=text))

    def handle(self, stimulus: object, *, now: float, wall: float) -> Outcome:
        """React to a message or a command's result. A sender that is out of date gets `Outcome.error`."""
        self._now, self._wall, self._out = now, wall, Outcome()
        try:
            self._out.reply = _HANDLERS[type(stimulus)](self, stimulus)
        except (ProtocolError, PermissionDenied) as error:
            self._out.error = error
        # Looking at every task after every message would make a start of n tasks cost n².
        if isinstance(stimulus, c.Tick) or any(isinstance(event, _UNSETTLING) for event in self._out.events):
            self._settle()
        return self._out

    def record(self, event: ev.AnyEvent) -> None:
        """Decide: the event is applied at once and journaled before anything else happens."""
        self._apply(event, self._wall)
        self._out.events.append(event)

    def command(self, command: c.Command) -> None:
        """Want something done after the events are durable."""
        self._out.commands.append(command)

    @property
    def now(self) -> float:
        """Monotonic clock of the present stimulus."""
        return self._now

    @property
    def wall(self) -> float:
        """Wall clock of the present stimulus."""
        return self._wall

    @property
    def begun(self) -> float:
        """Monotonic clock when this incarnation began."""
        return self._begun

    def kill_container(self, task: Task) -> None:
        """End a task's container, once."""
        if task.handle and not task.container_over and task.handle not in self._killed:
            self._killed.add(task.handle)
            self.command(c.KillContainer(task.handle))

    # -- Children ----------------------------------------------------------------------------------------------------

    def _register(self, request: m.RegisterRequest) -> m.Directive:
        if request.afo_version != __version__ or request.protocol != m.PROTOCOL:
            return self._refuse_version(request)
        task = self.state.task(request.task)
        if task is None or self.state.verdict:
            return self._directive_end("this attempt is not wanted any more")
        task.last_seen = self._now
        if task.stage is not Stage.REGISTERED:
            self.record(
                ev.TaskRegistered(
                    task=request.task, container=request.container, host=request.host, pid=request.pid,
                    log_url=request.log_url, environment=request.environment,
                )
            )  # fmt: skip
        return self._directive(task)

    def _refuse_version(self, request: m.RegisterRequest) -> m.Directive:
        text = (
            f"the container of {request.task} on {request.host} has afo {request.afo_version} "
            f"(protocol {request.protocol}), the job was submitted with afo {__version__} (protocol {m.PROTOCOL}); "
            "put the same version into `environment.python`"
        )
        self._ending.decide("FAILED", "version_mismatch", text, request.task)
        return self._directive_end(text)

    def _beat(self, request: m.HeartbeatRequest) -> m.Directive:
        task = self.state.task(request.task)
        if task is None or task.stage is not Stage.REGISTERED:
            return self._directive_end("this attempt is not wanted any more")
        task.last_seen = self._now
        task.process_alive, task.usage = request.process_alive, request.usage
        if request.progress is not None:
            self.rates.take(task.id, request.progress, self._now)
            task.progress = request.progress
        if request.address and request.generation == self.state.generation:
            task.address, task.address_generation = request.address, request.generation
            self._form_generation()
        return self._directive(task)

    def _form_generation(self) -> None:
        if self.state.ps:
            return
        servers = list(self.state.of_role("ps"))
        formed = all(t.stage is Stage.REGISTERED and t.address_generation == self.state.generation for t in servers)
        if formed:
            self.record(ev.GenerationStarted(generation=self.state.generation, ps=tuple(t.address for t in servers)))

    def _directive(self, task: Task) -> m.Directive:
        state, role = self.state, task.id.role
        if state.verdict:
            return self._directive_end(f"the job is {state.verdict}")
        beat = max(1.0, len(state.tasks) / 800)
        if role == "evaluator":  # it talks to no parameter server, so no generation ends for it
            return m.Directive(action="run", generation=1, heartbeat_s=beat)
        if not state.ps:
            return m.Directive(action="wait", generation=state.generation, heartbeat_s=min(beat, 0.3))
        return m.Directive(
            action="run", generation=state.generation, ps=state.ps, heartbeat_s=beat,
            num_workers=state.num_workers, num_splits=state.splits.rows,
            is_chief=task is state.chief,
        )  # fmt: skip

    def _directive_end(self, reason: str) -> m.Directive:
        return m.Directive(action="end", generation=self.state.generation, reason=reason)

    def _exited(self, report: m.ExitReport) -> m.Empty:
        task = self.state.task(report.task)
        if task is not None and task.stage in LIVE:
            self._task_ended(task, report.cause, report.code, message_of(report), report)
        return m.Empty()

    # -- trainers ----------------------------------------------------------------------------------------------------

    def _current(self, task_id: m.TaskId, generation: int) -> Task:
        """The sender, if it still counts. Raises `ProtocolError`."""
        task = self.state.task(task_id)
        if task is None or task.stage is not Stage.REGISTERED or self.state.verdict:
            raise ProtocolError(f"attempt {task_id.attempt} of {task_id} has ended")
        if task_id.role != "evaluator" and generation != self.state.generation:
            raise ProtocolError(f"generation {generation} has ended; now is {self.state.generation}")
        return task

    def _want_split(self, request: m.SplitRequest) -> m.SplitReply:
        task = self._current(request.task, request.generation)
        if self.state.splits.finished or self._out_of_steps():
            return m.SplitReply(state="end")
        lease = self.state.splits.forgotten(task.id, request.holding)
        if lease is None:
            lease = self.state.splits.peek() if self.state.ready else None
            if lease is None:
                return m.SplitReply(state="wait")
            self.record(ev.SplitLeased(task=task.id, row=lease.row, epoch=lease.epoch, resume=lease.resume))
        url = self.state.config.train_files[lease.row]
        return m.SplitReply(state="lease", row=lease.row, epoch=lease.epoch, url=url, resume=lease.resume)

    def _out_of_steps(self) -> bool:
        limit = self.state.config.job.train.max_steps
        return limit is not None and max(self.state.step, self.rates.step) >= limit

    def _acked(self, ack: m.SplitAck) -> m.Empty:
        task = self._current(ack.task, ack.generation)
        splits = self.state.splits
        if not splits.is_repeated(ack.row, ack.epoch, ack.count, ack.xor):
            splits.check(ack.row, ack.epoch, task.id)
            self.record(ev.SplitDone(task=task.id, row=ack.row, epoch=ack.epoch, count=ack.count, xor=ack.xor))
        return m.Empty()

    def _may_start(self, request: m.ReadyRequest) -> m.ReadyReply:
        self._current(request.task, request.generation)
        return m.ReadyReply(ready=self.state.ready, restore=self.state.restore)

    def _chief_ready(self, report: m.ReadyReport) -> m.Empty:
        task = self._chief_only(report.task, report.generation)
        if not self.state.ready:
            self.rates.reset(report.step)
            self.record(
                ev.VariablesReady(
                    task=task.id, generation=report.generation, restored=report.restored, step=report.step
                )
            )
        return m.Empty()

    def _checkpointed(self, report: m.CheckpointReport) -> m.Empty:
        task = self._chief_only(report.task, report.generation)
        if report.manifest not in self.state.checkpoints or report.final:
            self.record(
                ev.CheckpointWritten(
                    task=task.id, generation=report.generation, step=report.step, manifest=report.manifest,
                    positions=report.positions, final=report.final,
                )
            )  # fmt: skip
        return m.Empty()

    def _chief_only(self, task_id: m.TaskId, generation: int) -> Task:
        task = self._current(task_id, generation)
        if task is not self.state.chief:
            raise PermissionDenied(f"{task_id} is not the chief")
        return task

    def _evaluated(self, report: m.EvalReport) -> m.Empty:
        task = self._current(report.task, report.generation)
        # JSON has no NaN: a metric that is none is left out, or the journal could not be read again.
        finite = {name: value for name, value in report.metrics.items() if math.isfinite(value)}
        self.record(
            ev.Evaluated(task=task.id, step=report.step, manifest=report.manifest, metrics=finite, final=report.final)
        )
        return m.Empty()

    # -- clients -----------------------------------------------------------------------------------------------------

    def _kill_asked(self, request: m.KillRequest) -> m.Empty:
        if not self.state.verdict:
            self.record(ev.KillRequested(user=request.user, reason=request.reason))
            self._ending.decide(
                "KILLED", "killed_by_user", f"killed by {request.user}: {request.reason or 'no reason given'}"
            )
        return m.Empty()

    # -- containers --------------------------------------------------------------------------------------------------

    def _placed(self, placed: c.ContainerPlaced) -> None:
        self.record(ev.ContainerAssigned(task=placed.task, handle=placed.handle))
        task = self.state.task(placed.task)
        if task is None or self.state.verdict:
            self.kill_handle(placed.handle)

    def kill_handle(self, handle: str) -> None:
        """End a container that no task wants."""
        if handle not in self._killed:
            self._killed.add(handle)
            self.command(c.KillContainer(handle))

    def _containers_seen(self, seen: c.ContainersSeen) -> None:
        by_handle = {task.handle: task for task in self.state.tasks.values() if task.handle}
        for info in seen.containers:
            task = by_handle.get(info.handle)
            if task is None or (task.stage is Stage.ENDED and info.state != "ended"):
                if info.state != "ended":
                    self.kill_handle(info.handle)
            elif info.state == "running" and not task.running_since and task.stage in LIVE:
                self.record(
                    ev.ContainerRunning(task=task.id, handle=info.handle, container=info.container, host=info.host)
                )
            elif info.state == "ended" and not task.container_over:
                self._container_over(task, info)

    def _container_over(self, task: Task, info: ContainerInfo) -> None:
        if task.stage in LIVE:
            # The Child's own report is the truth; without one, the container was taken from us.
            text = info.diagnostics or "the container ended without a report of its Child"
            self._task_ended(task, cause_of(info.diagnostics), info.exit_code, text)
        self.record(
            ev.ContainerEnded(task=task.id, handle=info.handle, diagnostics=info.diagnostics, exit_code=info.exit_code)
        )

    def _command_failed(self, failed: c.CommandFailed) -> None:
        self.record(ev.ContainerEnded(task=failed.task, handle="", diagnostics=failed.message))
        self.record(ev.TaskEnded(task=failed.task, cause="launch_failed", code=None, message=failed.message))
        self._ending.decide("FAILED", "launch_failed", failed.message, failed.task)

    # -- ends --------------------------------------------------------------------------------------------------------

    def task_lost(self, task: Task, cause: str, text: str) -> None:
        """A task is given up by the AM itself: its container is killed and replaced."""
        self.kill_container(task)
        self._task_ended(task, cause, None, text)

    def _task_ended(
        self, task: Task, cause: str, code: int | None, message: str, report: m.ExitReport | None = None
    ) -> None:
        if self.state.verdict and cause != SUCCEEDED:
            cause, message = ENDED_WITH_JOB, CAUSES[ENDED_WITH_JOB].summary
        self.record(
            ev.TaskEnded(
                task=task.id, cause=cause, code=code, message=message,
                tail=report.tail if report else "",
                progress=report.progress if report else task.progress,
                usage=report.usage if report else task.usage,
            )
        )  # fmt: skip
        if self.state.verdict or cause == SUCCEEDED:
            return
        reason = give_up_reason(self.state, task, cause, self._wall)
        if reason:
            self._ending.decide("FAILED", cause, f"{task.id}: {message.rstrip('.')}; {reason}", task.id)
        elif task.id.role == "ps" and self.state.chief.stage is not Stage.SUCCEEDED and self.state.ps:
            text = f"{task.id} (attempt {task.id.attempt}) is gone: {cause}"
            self.record(
                ev.GenerationEnded(generation=self.state.generation, reason=text, manifest=self.state.newest_manifest)
            )

    def _request(self, task: Task, reason: str) -> None:
        spec = self.state.spec(task.id.role)
        again = (task.id.role, task.id.index) in self.state.requested
        task_id = m.TaskId(role=task.id.role, index=task.id.index, attempt=task.id.attempt + again)
        self.record(ev.ContainerRequested(task=task_id, memory=int(spec.memory), vcores=spec.vcores, reason=reason))
        task.last_seen = self._now
        self.command(c.RequestContainer(task_id, more_memory=task.last_cause in MEMORY_CAUSES))

    def _settle(self) -> None:
        """What follows from the new state, whatever led to it."""
        if not self.state.verdict and self.state.trained:
            self._ending.decide("SUCCEEDED", SUCCEEDED, "all samples were trained on")
        if self.state.verdict:
            self._ending.go_on()
            return
        for task in self.state.tasks.values():
            unneeded = task.id.role == "ps" and self.state.chief.stage is Stage.SUCCEEDED
            if task.stage is Stage.ENDED and not unneeded:
                self._request(task, f"after {task.last_cause}")

    def _tick(self, _: c.Tick) -> None:
        if self.state.verdict:
            return
        self._ending.look_at_the_clock()
        if self._now - self._last_sample >= 30 and self.state.ready:
            self._last_sample = self._now
            rates = self.rates
            self.record(
                ev.Sample(
                    step=rates.step, samples=rates.samples, samples_per_s=rates.samples_per_s(self._now),
                    input_wait=rates.input_wait, loss=rates.loss,
                )
            )  # fmt: skip
            total = self.state.splits.total
            self.command(c.ShowProgress(self.state.splits.done / total if total else 0.0))

    def _job_started(self, job_id: str) -> ev.JobStarted:
        config = self.state.config
        return ev.JobStarted(
            job_id=job_id, name=config.job.name, user=config.user, queue=config.job.queue, runtime=config.runtime,
            afo_version=config.afo_version, submitted=config.submitted, train_files=config.train_files,
            eval_files=config.eval_files, epochs=config.job.data.epochs,
        )  # fmt: skip


_Handler = Callable[[Core, Any], m.Message | None]
_HANDLERS: dict[type, _Handler] = {
    m.RegisterRequest: Core._register,
    m.HeartbeatRequest: Core._beat,
    m.ExitReport: Core._exited,
    m.SplitRequest: Core._want_split,
    m.SplitAck: Core._acked,
    m.ReadyRequest: Core._may_start,
    m.ReadyReport: Core._chief_ready,
    m.CheckpointReport: Core._checkpointed,
    m.EvalReport: Core._evaluated,
    m.KillRequest: Core._kill_asked,
    c.ContainerPlaced: Core._placed,
    c.ContainersSeen: Core._containers_seen,
    c.CommandFailed: Core._command_failed,
    c.Tick: Core._tick,
}

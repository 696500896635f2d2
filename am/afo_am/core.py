"""The deciding core of the Application Master: a stimulus in, events and commands out. No I/O, no clock, no threads.

Whatever it decides is an event first: `Outcome.events` are durable before a command of the same outcome is carried
out or its reply is sent. The state follows the events (`afo_am.state`), so a restarted AM replays them and goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from afo.errors import AfoError, NotFound, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.failures.causes import APPLICATION_ATTEMPT_LOST, CAUSES, SCALED_AWAY
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am import commands as c
from afo_am import spare
from afo_am.apply import apply
from afo_am.children import Children
from afo_am.containers import Containers
from afo_am.ending import Ending
from afo_am.gang import Gang
from afo_am.orders import Orders
from afo_am.progress import progress_of, seconds_left
from afo_am.rates import Rates
from afo_am.restarts import (
    ends_generation,
    generation_ended,
    give_up_reason,
    is_needed,
    memory_ends,
    pause_before_restart,
)
from afo_am.scaling import Scaling
from afo_am.slow import Slow
from afo_am.stalls import Stalls
from afo_am.state import ENDED_WITH_JOB, SUCCEEDED, JobState
from afo_am.tasks import LIVE, Stage, Task
from afo_am.trainers import Trainers
from afo_am.used import Used
from afo_am.waiting import Waiting, in_order

#: Events after which something may have to follow at once; for all else the next tick is soon enough.
_UNSETTLING = (ev.TaskEnded, ev.GenerationEnded, ev.WorkersScaled, ev.JobEnding)

#: Seconds between two `Sample` events: few at first, for the curves of short jobs.
FIRST_SAMPLE_S, SAMPLE_S = 2.0, 30.0


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
        #: The last word of the start before, on the wall clock; 0 for the first.
        self._heard_before = 0.0
        self._last_sample = now
        #: Seconds from the last `Sample` to the next.
        self._sample_pause = 0.0
        #: Samples in the last `Sample` event.
        self._sampled = 0
        #: Parts of the core, each for one kind of counterpart; all decide through `record` and `command`.
        self.ending = Ending(self)
        self.orders = Orders(self)
        self.stalls = Stalls(self)
        self.scaling = Scaling(self)
        self.slow = Slow(self)
        self.gang = Gang(self)
        self.waiting = Waiting(self)
        self._used = Used(self, now)
        children, trainers, containers = Children(self), Trainers(self), Containers(self)
        self._handlers: dict[type, Callable[[Any], m.Message | None]] = {
            m.RegisterRequest: children.register,
            m.HeartbeatRequest: children.beat,
            m.ExitReport: children.exited,
            m.SplitRequest: trainers.want_split,
            m.SplitAck: trainers.acked,
            m.ReadyRequest: trainers.may_start,
            m.ReadyReport: trainers.chief_ready,
            m.SavingReport: trainers.saving,
            m.CheckpointReport: trainers.checkpointed,
            m.ExportRequest: trainers.may_export,
            m.EvalReport: trainers.evaluated,
            m.KillRequest: self._kill_asked,
            m.ScaleRequest: self.scaling.scale,
            m.OrderRequest: self.orders.give,
            m.OrderStatusRequest: self.orders.status,
            m.OrderResult: self.orders.done,
            c.ContainerPlaced: containers.placed,
            c.ContainersSeen: containers.seen,
            c.ClusterSeen: self.waiting.seen,
            c.CommandFailed: containers.failed,
            c.Tick: self._tick,
        }

    # -- the door ----------------------------------------------------------------------------------------------------

    def replay(self, event: ev.AnyEvent, wall: float) -> None:
        """Take in an event of an earlier incarnation."""
        self._apply(event, wall)

    def _apply(self, event: ev.AnyEvent, wall: float) -> None:
        apply(self.state, event, wall)
        if isinstance(event, ev.JobFinished):
            self.finished_event = event
        elif isinstance(event, ev.Sample):
            self._sampled = event.samples

    def start(self, started: ev.AmStarted, job_id: str, *, now: float, wall: float) -> Outcome:
        """Begin, or go on after a replay: ask for what has no container yet."""
        self._now, self._wall, self._out = now, wall, Outcome()
        if not self.state.started:
            self.record(self._job_started(job_id))
        self._heard_before = self.state.heard
        if started.am_attempt > self.state.am_attempt > 0:
            self._end_containers_of_earlier_attempt()
        self.record(started)
        self.orders.fail_lost()
        registered = (task.id for task in self.state.tasks.values() if task.stage is Stage.REGISTERED)
        self.rates.resume(self._sampled, registered)
        for task in sorted(self.state.tasks.values(), key=in_order):
            task.last_seen = now
            task.waiting_since = now if task.stage is Stage.REQUESTED else 0.0
            if (task.id.role, task.id.index) not in self.state.requested:
                self._request(task, "the job begins")
            elif task.stage is Stage.REQUESTED and not task.handle and not self.state.verdict:
                # The request may have been made: a container that nobody knows is ended, its attempt refused.
                text = "the AM was restarted while it asked for the container"
                self.task_ended(task, "request_unanswered", None, text)
        if self.state.finished:
            self.ending.repeat()
        self._settle()
        return self._out

    def _end_containers_of_earlier_attempt(self) -> None:
        # YARN kills them when it starts another attempt of the application, and that one does not list them.
        state = self.state
        lost = f"application attempt {state.am_attempt}, whose Application Master on {state.am_host or 'some host'}"
        text = f"YARN ended it with {lost} was heard of last {max(0.0, self._wall - state.heard):.0f} s before"
        for task in state.tasks.values():
            if task.stage in LIVE:
                self.task_ended(task, APPLICATION_ATTEMPT_LOST, None, text)
            if task.handle and not task.container_over:
                self.record(ev.ContainerEnded(task=task.id, handle=task.handle, diagnostics=text))

    def handle(self, stimulus: object, *, now: float, wall: float) -> Outcome:
        """React to a message or a command's result. A sender that is out of date gets `Outcome.error`."""
        self._now, self._wall, self._out = now, wall, Outcome()
        try:
            self._out.reply = self._handlers[type(stimulus)](stimulus)
        except (ProtocolError, PermissionDenied, NotFound) as error:
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
        if task.handle and not task.container_over:
            self.kill_handle(task.handle)

    def kill_handle(self, handle: str) -> None:
        """End a container that no task wants."""
        if handle not in self._killed:
            self._killed.add(handle)
            self.command(c.KillContainer(handle))

    # -- clients -----------------------------------------------------------------------------------------------------

    def _kill_asked(self, request: m.KillRequest) -> m.Empty:
        if not self.state.verdict:
            self.record(ev.KillRequested(user=request.user, reason=request.reason))
            self.ending.decide(
                "KILLED", "killed_by_user", f"killed by {request.user}: {request.reason or 'no reason given'}"
            )
        return m.Empty()

    # -- ends --------------------------------------------------------------------------------------------------------

    def unheard_s(self, task: Task) -> float:
        """Seconds since a task was heard of, by this start of the AM or, as it may be, the one before."""
        if task.last_seen > self._begun or not self._heard_before:
            return self._now - task.last_seen
        return max(0.0, self._wall - self._heard_before)

    def task_lost(self, task: Task, cause: str, text: str, idle_s: float = 0.0) -> None:
        """A task is given up by the AM itself: its container is killed and replaced."""
        self.kill_container(task)
        self.task_ended(task, cause, None, text, idle_s=idle_s)

    def task_ended(
        self, task: Task, cause: str, code: int | None, message: str, report: m.ExitReport | None = None,
        idle_s: float = 0.0,
    ) -> None:  # fmt: skip
        """An attempt is over, as it was in effect for `idle_s` before: it is replaced, or the job fails."""
        if self.state.verdict and cause != SUCCEEDED:
            cause, message = ENDED_WITH_JOB, CAUSES[ENDED_WITH_JOB].summary
        elif task.leaving and cause != SUCCEEDED:  # whatever it is that it ended with
            cause, message = task.leaving
        self.record(
            ev.TaskEnded(
                task=task.id, cause=cause, code=code, message=message,
                tail=report.tail if report else "",
                progress=report.progress if report else task.progress,
                usage=report.usage if report else task.usage, idle_s=round(idle_s, 3),
            )
        )  # fmt: skip
        self.orders.task_ended(task.id, cause)
        if cause == SCALED_AWAY:
            task.waiting_since = 0.0  # a wait begins when it is wanted again
        elif not (self.state.verdict or cause == SUCCEEDED or task.given_up):
            self.start_again(task, cause, message)

    def start_again(self, task: Task, cause: str, message: str) -> None:
        """After an end that was recorded: a pause and another attempt, with all others if they must; or giving up."""
        reason = give_up_reason(self.state, task, cause, self._wall, message)
        if reason:
            self._give_up(task, cause, f"{message.rstrip('.')}; {reason}")
            return
        task.not_before = self._now + pause_before_restart(self.state, task, self._wall)
        if ends_generation(self.state, task):
            text = f"{task.id} (attempt {task.id.attempt}) is gone: {cause}"
            ended = generation_ended(self.state, task, text)
            if self.state.ready:
                step = max(self.state.step, self.rates.step)
                ended = replace(ended, step=step, samples=self.rates.trained)
            self.record(ended)

    def _give_up(self, task: Task, cause: str, text: str) -> None:
        """The job goes on without the task, or fails."""
        if not spare.give_up(self, task, cause, text):
            where = f"{task.id} on {task.host}" if task.host else str(task.id)
            self.ending.decide("FAILED", cause, f"{where}: {text}", task.id)

    def _request(self, task: Task, reason: str) -> None:
        spec = self.state.spec(task.id.role)
        again = (task.id.role, task.id.index) in self.state.requested
        task_id = m.TaskId(role=task.id.role, index=task.id.index, attempt=task.id.attempt + again)
        self.record(ev.ContainerRequested(task=task_id, memory=int(spec.memory), vcores=spec.vcores, reason=reason))
        task.last_seen = self._now
        task.waiting_since = task.waiting_since or self._now
        self.command(c.RequestContainer(task_id, more_memory=memory_ends(task) > 0))

    def _settle(self) -> None:
        """What follows from the new state, whatever led to it."""
        if not self.state.verdict and self.state.trained:
            self.ending.decide("SUCCEEDED", SUCCEEDED, f"{self._how_it_ended()}{spare.without(self.state)}")
        if self.state.verdict:
            self.ending.go_on()
            return
        if self._wall < self.state.gang.ask_at:
            return
        ended = (task for task in self.state.tasks.values() if task.stage is Stage.ENDED)
        for task in sorted(ended, key=in_order):
            if task.not_before <= self._now and is_needed(self.state, task):
                self._request(task, f"after {task.last_cause}")

    def _how_it_ended(self) -> str:
        if self.state.config.job.program:
            return "the program has done its work"
        if self.state.evaluations.stopping:
            return "stopped early, as `train.early_stop` says"
        return "all samples were trained on" if self.state.splits.finished else "`train.max_steps` were made"

    def _tick(self, _: c.Tick) -> None:
        if self.state.verdict:
            return
        self.stalls.look()
        self.slow.look()
        self.scaling.look()
        self.ending.look_at_the_clock()
        self.gang.look()
        self.waiting.look()
        self._used.look()
        if self.rates.samples and self.state.ready and self._now - self._last_sample >= self._sample_pause:
            self._last_sample = self._now
            self._sample_pause = min(SAMPLE_S, max(FIRST_SAMPLE_S, 1.2 * self._sample_pause))
            self._sample(self.rates.samples_per_s(self._now), seconds_left(self.state, self.rates, self._now))
            self.command(c.ShowProgress(progress_of(self.state, self.rates) or 0.0))

    def sample_last(self) -> None:
        """Keep how the training stood when the job ended: a short one would else be known by its first steps."""
        if self.rates.samples > self._sampled:
            self._sample(self.rates.last_samples_per_s, None)

    def _sample(self, samples_per_s: float, left: float | None) -> None:
        rates = self.rates
        self.record(
            ev.Sample(
                step=rates.step, samples=rates.samples, samples_per_s=samples_per_s, input_wait=rates.input_wait,
                loss=rates.loss, staleness=rates.staleness, progress=progress_of(self.state, rates), seconds_left=left,
            )
        )  # fmt: skip

    def _job_started(self, job_id: str) -> ev.JobStarted:
        config = self.state.config
        return ev.JobStarted(
            job_id=job_id, name=config.job.name, user=config.user, queue=config.job.queue, runtime=config.runtime,
            afo_version=config.afo_version, submitted=config.submitted, train_files=config.train_splits,
            eval_files=config.eval_files, epochs=config.job.data.epochs,
        )  # fmt: skip

"""The deciding core of the Application Master: a stimulus in, events and commands out. No I/O, no clock, no threads.

Whatever it decides is an event first: `Outcome.events` are durable before a command of the same outcome is carried
out or its reply is sent. The state follows the events (`JobState`), so a restarted AM replays them and goes on.
"""

from collections.abc import Callable
from typing import Any

from afo.errors import NotFound, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.failures.causes import APPLICATION_ATTEMPT_LOST
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.core.child_rpc import ChildRpc
from afo_am.core.client_rpc import ClientRpc
from afo_am.core.containers import Containers
from afo_am.core.training_rpc import TrainingRpc
from afo_am.policy.gang_release import GangRelease
from afo_am.policy.hangs import Hangs
from afo_am.policy.lifecycle import Lifecycle
from afo_am.policy.orders import Orders
from afo_am.policy.restarts import is_needed, without_text
from afo_am.policy.samples import TrainingSamples, UsageSamples
from afo_am.policy.scaling import Scaling
from afo_am.policy.split_discovery import SplitDiscovery
from afo_am.policy.stragglers import Stragglers
from afo_am.policy.time_limits import TimeLimits
from afo_am.policy.verdict import Shutdown, decide
from afo_am.policy.waiting import Waiting, in_order
from afo_am.state import commands as c
from afo_am.state.apply import apply
from afo_am.state.context import Context, Outcome
from afo_am.state.job_state import SUCCEEDED, JobState
from afo_am.state.rates import Rates
from afo_am.state.tasks import LIVE, Stage

#: Events after which something may have to follow at once; for all else the next tick is soon enough.
_UNSETTLING = (ev.TaskEnded, ev.GenerationEnded, ev.WorkersScaled, ev.JobEnding)


class Core:
    """Decides. `wall` and `now` (monotonic) are seconds, given with every call."""

    def __init__(self, config: AmConfig, *, now: float) -> None:
        context = self._context = Context(config, now)
        self._samples = TrainingSamples(context)
        self._shutdown = Shutdown(context, self._samples)
        self.waiting = Waiting(context)
        self._discovery = SplitDiscovery(context)
        self._orders = Orders(context)
        self._tasks = tasks = Lifecycle(context, self._orders)
        stragglers, scaling = Stragglers(context), Scaling(context, tasks)
        gang, hangs = GangRelease(context, tasks, self.waiting), Hangs(context, tasks, self._orders)
        limits = TimeLimits(context, tasks, hangs, self.waiting)
        #: Once in each tick, in this order.
        looking = (
            hangs, stragglers, scaling, limits, gang, self.waiting, UsageSamples(context), self._samples,
        )  # fmt: skip
        self._looks = [policy.look for policy in looking]
        children, containers = ChildRpc(context, tasks, self._orders, gang), Containers(context, tasks)
        trainers, clients = TrainingRpc(context, stragglers), ClientRpc(context, scaling, self._orders)
        self._handlers: dict[type, Callable[[Any], m.Message | None]] = {
            m.RegisterRequest: children.register,
            m.HeartbeatRequest: children.beat,
            m.ExitReport: children.report_exit,
            m.SplitRequest: trainers.want_split,
            m.SplitAck: trainers.ack_split,
            m.ReadyRequest: trainers.may_start,
            m.ReadyReport: trainers.chief_ready,
            m.ServersRequest: trainers.servers,
            m.SavingReport: trainers.saving,
            m.CheckpointReport: trainers.report_checkpoint,
            m.VersionRequest: trainers.next_version,
            m.VersionReport: trainers.report_version,
            m.ExportRequest: trainers.may_export,
            m.EvalReport: trainers.report_eval,
            m.KillRequest: clients.kill,
            m.ScaleRequest: clients.scale,
            m.OrderRequest: clients.give_order,
            m.OrderStatusRequest: clients.order_status,
            m.OrderResult: self._orders.record_result,
            c.ContainerPlaced: containers.record_placement,
            c.ContainersSeen: containers.observe_containers,
            c.ClusterSeen: self.waiting.observe_cluster,
            c.SplitsFound: self._discovery.add,
            c.CommandFailed: containers.record_refusal,
            c.Tick: self._tick,
        }

    # -- what others see ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> JobState:
        """Follows the events alone."""
        return self._context.state

    @property
    def rates(self) -> Rates:
        """Of what heartbeats said."""
        return self._context.rates

    @property
    def now(self) -> float:
        """Monotonic clock of the present stimulus."""
        return self._context.now

    @property
    def wall(self) -> float:
        """Wall clock of the present stimulus."""
        return self._context.wall

    # -- the door ----------------------------------------------------------------------------------------------------

    def replay(self, event: ev.AnyEvent, wall: float) -> None:
        """Take in an event of an earlier incarnation."""
        apply(self.state, event, wall)
        if isinstance(event, ev.Sample):
            self._samples.told = event.samples

    def start(self, started: ev.AmStarted, job_id: str, *, now: float, wall: float) -> Outcome:
        """Begin, or go on after a replay: ask for what has no container yet."""
        out = self._context.begin(now=now, wall=wall)
        if not self.state.started:
            self._context.record(self._job_started(job_id))
        self._discovery.begin()
        self._context.heard_before = self.state.heard
        if started.am_attempt > self.state.am_attempt > 0:
            self._end_containers_of_earlier_attempt()
        self._context.record(started)
        self._orders.fail_lost()
        registered = (task.id for task in self.state.tasks.values() if task.stage is Stage.REGISTERED)
        self.rates.resume(self._samples.told, registered)
        for task in sorted(self.state.tasks.values(), key=in_order):
            task.last_seen = now
            task.waiting_since = now if task.stage is Stage.REQUESTED else 0.0
            if (task.id.role, task.id.index) not in self.state.requested:
                self._tasks.request(task, "the job begins")
            elif task.stage is Stage.REQUESTED and not task.handle and not self.state.verdict:
                # The request may have been made: a container that nobody knows is ended, its attempt refused.
                text = "the AM was restarted while it asked for the container"
                self._tasks.task_ended(task, "request_unanswered", None, text)
        if self.state.finished:
            self._shutdown.repeat()
        self._settle()
        return out

    def _end_containers_of_earlier_attempt(self) -> None:
        # YARN kills them when it starts another attempt of the application, and that one does not list them.
        state = self.state
        lost = f"application attempt {state.am_attempt}, whose Application Master on {state.am_host or 'some host'}"
        text = f"YARN ended it with {lost} was last seen {max(0.0, self.wall - state.heard):.0f} s before"
        for task in state.tasks.values():
            if task.stage in LIVE:
                self._tasks.task_ended(task, APPLICATION_ATTEMPT_LOST, None, text)
            if task.handle and not task.container_over:
                self._context.record(ev.ContainerEnded(task=task.id, handle=task.handle, diagnostics=text))

    def handle(self, stimulus: object, *, now: float, wall: float) -> Outcome:
        """React to a message or a command's result. A sender that is out of date gets `Outcome.error`."""
        out = self._context.begin(now=now, wall=wall)
        try:
            out.reply = self._handlers[type(stimulus)](stimulus)
        except (ProtocolError, PermissionDenied, NotFound) as error:
            out.error = error
        # Looking at every task after every message would make a start of n tasks cost n².
        if isinstance(stimulus, c.Tick) or any(isinstance(event, _UNSETTLING) for event in out.events):
            self._settle()
        return out

    # -- what follows --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What follows from the new state, whatever led to it."""
        if not self.state.verdict and self.state.trained:
            decide(self._context, "SUCCEEDED", SUCCEEDED, f"{self._how_it_ended()}{without_text(self.state)}")
        if self.state.verdict:
            self._shutdown.go_on()
            return
        if self.wall < self.state.gang.ask_at:
            return
        ended = (task for task in self.state.tasks.values() if task.stage is Stage.ENDED)
        for task in sorted(ended, key=in_order):
            if task.not_before <= self.now and is_needed(self.state, task):
                self._tasks.request(task, f"after {task.last_cause}")

    def _how_it_ended(self) -> str:
        if self.state.config.job.program:
            return "the program has done its work"
        if self.state.evaluations.stopping:
            return "stopped early, as `train.early_stop` says"
        return "all samples were trained on" if self.state.splits.finished else "`train.max_steps` were made"

    def _tick(self, _: c.Tick) -> None:
        if not self.state.verdict:
            for look in self._looks:
                look()

    def _job_started(self, job_id: str) -> ev.JobStarted:
        config = self.state.config
        return ev.JobStarted(
            job_id=job_id, name=config.job.name, user=config.user, queue=config.job.queue, runtime=config.runtime,
            afo_version=config.afo_version, submitted=config.submitted,
            eval_files=config.eval_files, epochs=config.job.data.epochs,
        )  # fmt: skip

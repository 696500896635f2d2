"""State of a job: a function of its events. `apply` is the only way to change what the journal covers. Pure."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from afo import events as ev
from afo.am_config import AmConfig
from afo.errors import AfoError
from afo.exits import CAUSES, NO_RESTART, OF_THE_HOST, SCALED_AWAY, WAITS
from afo.job import ROLES, Role, RoleSpec
from afo.rpc.messages import TaskId
from afo_am import invariants
from afo_am.evaluations import Evaluations
from afo_am.patience import Patience
from afo_am.splits import Position, SplitQueue
from afo_am.tasks import LIVE, Fault, Holder, Leaving, Stage, Task

#: Causes of ends that are no failure.
SUCCEEDED = "succeeded"
#: A Child was told to end by somebody else.
STOPPED = "container_stopped"
ENDED_WITH_JOB = "ended_with_job"


class InvalidState(AfoError, RuntimeError):
    """An invariant of the AM's state does not hold; the AM's own mistake."""


class JobState:
    """Everything the AM knows. Fields below the line in `Task` and `last_step_at` are not in the journal."""

    def __init__(self, config: AmConfig) -> None:
        self.config = config
        job = config.job
        #: One task for each role and index of the job; never grows or shrinks.
        self.tasks: dict[tuple[Role, int], Task] = {
            (role, index): Task(TaskId(role=role, index=index, attempt=0))
            for role in ROLES
            if role in job.roles
            for index in range(job.roles[role].count)
        }
        #: Workers that are wanted now, those with the lowest indices; of an elastic role between its `min` and `max`.
        self.workers = job.roles["worker"].count
        self.num_workers = sum(1 for _ in self.of_role("chief", "worker"))
        self.splits = SplitQueue(
            len(config.train_files), job.data.epochs, job.data.shuffle.seed, job.data.shuffle.files
        )
        #: Roles whose first container was asked for; a task not in it was never requested.
        self.requested: set[tuple[Role, int]] = set()
        #: Begins with 1; grows by one with every loss of a parameter server.
        self.generation = 1
        #: Addresses of the present generation by role (`Job.listening`); empty while it is forming.
        self.cluster: dict[Role, tuple[str, ...]] = {}
        #: The chief prepared the variables of the present generation.
        self.ready = False
        #: Parameter servers of a model that hold its variables, by index: all of them once the generation is ready, and
        #: before that those which an earlier one left.
        self.holders: dict[int, Holder] = {}
        #: Manifest that the present generation starts from; '' for a fresh start.
        self.restore = ""
        #: Positions of each manifest written, newest last.
        self.checkpoints: dict[str, tuple[Position, ...]] = {}
        self.newest_manifest = ""
        #: Directory of the checkpoint that the chief began last.
        self.saving = ""
        self.final_manifest = ""
        self.metrics: dict[str, float] = {}
        self.evaluations = Evaluations(job.export, job.train.early_stop)
        self.step = 0
        #: Step that the job itself began with: above 0 after a warm start.
        self.first_step = 0
        #: '' while the job runs; then SUCCEEDED, FAILED or KILLED, for ever.
        self.verdict = ""
        self.verdict_cause = ""
        self.diagnostics = ""
        self.first_task: TaskId | None = None
        self.ending_since = 0.0
        self.finished = False
        self.started = 0.0
        self.incarnation = 0
        #: YARN's number of the application attempt that wrote last; 0 before the first.
        self.am_attempt = 0
        self.restarts = 0
        #: Wall clock times of ends that were a machine's fault, by each name of the host.
        self.host_faults: dict[str, list[float]] = {}
        #: Wall clock and index of workers that were replaced for being slow, oldest first.
        self.replaced_slow: list[tuple[float, int]] = []
        self.gang = Patience()
        #: Number of the last order that was given, and those that are under way.
        self.orders = 0
        self.open_orders: dict[int, ev.OrderGiven] = {}
        #: Wall clock of the first readiness and of the last acknowledged file; 0 before.
        self.train_began = 0.0
        self.train_ended = 0.0
        self.core_seconds = 0.0
        self.memory_mib_seconds = 0.0

    # -- questions ---------------------------------------------------------------------------------------------------

    def task(self, task_id: TaskId) -> Task | None:
        """The task of this role and index if `task_id` is its present attempt."""
        task = self.tasks.get((task_id.role, task_id.index))
        return task if task is not None and task.id == task_id and task.stage is not Stage.ENDED else None

    def of_role(self, *roles: Role) -> Iterator[Task]:
        """All tasks of these roles, in order."""
        return (task for (role, _), task in self.tasks.items() if role in roles)

    def spec(self, role: Role) -> RoleSpec:
        """Resources of a role."""
        return self.config.job.roles[role]

    def wanted(self, role: Role) -> int:
        """How many tasks of a role are wanted now."""
        return self.workers if role == "worker" else self.spec(role).count

    def is_wanted(self, task: Task) -> bool:
        """False for a worker that was scaled away, or is to be."""
        return task.id.index < self.wanted(task.id.role)

    @property
    def chief(self) -> Task:
        """The task that prepares, saves and exports."""
        return self.tasks[self.config.job.chief]

    @property
    def ps(self) -> tuple[str, ...]:
        """Addresses of the parameter servers; empty while the generation is forming."""
        return self.cluster.get("ps", ())

    @property
    def trained(self) -> bool:
        """All work is done; an evaluator of a program has no end of its own."""
        workers = (self.chief,) if self.config.job.ends_with == "chief" else self.of_role("chief", "worker")
        evaluators = () if self.config.job.program else self.of_role("evaluator")
        return all(task.stage is Stage.SUCCEEDED or self._is_not_awaited(task) for task in (*workers, *evaluators))

    def _is_not_awaited(self, task: Task) -> bool:
        """A worker of a model without a container when the chief is done has nothing left to do."""
        if task.given_up or not self.is_wanted(task):
            return True
        waits = task.stage in (Stage.REQUESTED, Stage.ENDED) and task.id.role == "worker"
        return waits and not self.config.job.program and self.chief.stage is Stage.SUCCEEDED

    @property
    def samples(self) -> int:
        """Samples that the model of the last checkpoint was trained on; of complete files alone before there is one."""
        if not self.final_manifest:
            return self.splits.samples()
        return self.splits.samples_at(self.checkpoints[self.final_manifest])

    def validate(self) -> None:
        """Raises `InvalidState` naming the invariant that does not hold."""
        if broken := invariants.broken(self):
            raise InvalidState(f"the AM's state is inconsistent: {broken}")

    # -- changes -----------------------------------------------------------------------------------------------------

    def apply(self, event: ev.AnyEvent, time: float) -> None:
        """Take in one event of wall clock `time`. Raises `IllegalTransition` where it cannot have happened."""
        _APPLY[type(event)](self, event, time)
        self.gang.take(event, time)

    def _job_started(self, event: ev.JobStarted, time: float) -> None:
        self.started = event.submitted or time

    def _am_started(self, event: ev.AmStarted, time: float) -> None:
        self.incarnation, self.am_attempt = event.incarnation, event.am_attempt

    def _container_requested(self, event: ev.ContainerRequested, time: float) -> None:
        key = (event.task.role, event.task.index)
        if key in self.requested:
            self.restarts += self.tasks[key].last_cause not in NO_RESTART
            self.tasks[key].move(Stage.REQUESTED)
        self.requested.add(key)

    def _container_assigned(self, event: ev.ContainerAssigned, time: float) -> None:
        self.tasks[event.task.role, event.task.index].handle = event.handle

    def _container_running(self, event: ev.ContainerRunning, time: float) -> None:
        task = self.tasks[event.task.role, event.task.index]
        task.container, task.host, task.node = event.container, task.host or event.host, event.host
        task.running_since = task.running_since or time
        if task.stage is Stage.REQUESTED:
            task.move(Stage.ALLOCATED)

    def _container_ended(self, event: ev.ContainerEnded, time: float) -> None:
        task = self.tasks[event.task.role, event.task.index]
        if task.id == event.task:
            task.container_over = True
            self._charge(task, time)

    def _task_registered(self, event: ev.TaskRegistered, time: float) -> None:
        task = self.tasks[event.task.role, event.task.index]
        task.container, task.host, task.log_url = event.container, event.host, event.log_url
        task.running_since = task.running_since or time
        task.move(Stage.REGISTERED)

    def _generation_started(self, event: ev.GenerationStarted, time: float) -> None:
        self.cluster = event.cluster or {"ps": event.ps}

    def _generation_ended(self, event: ev.GenerationEnded, time: float) -> None:
        self.generation = event.generation + 1
        self.cluster = {}
        self.ready = False
        self.restore = event.manifest
        self.holders = {index: holder for index, holder in self.holders.items() if index in event.kept}
        for task in self.of_role("chief", "worker", *self.config.job.listening):
            self.splits.release(task.id)
            # Where the data do not go back, a worker that has finished has nothing more to do.
            if task.stage is Stage.SUCCEEDED and not event.kept:
                task.move(Stage.ENDED)

    def _variables_ready(self, event: ev.VariablesReady, time: float) -> None:
        self.ready = True
        self.holders = {
            index: self.holders.get(index) or Holder(event.generation, address) for index, address in enumerate(self.ps)
        }
        self.train_began = self.train_began or time
        self.restore = event.restored
        self.step = event.step
        if not event.restored:
            self.first_step = event.step
        self.evaluations.note(event)
        if (self.generation > 1 or event.restored) and not event.kept:
            self.splits.roll_back(self.checkpoints.get(event.restored, ()))

    def _split_leased(self, event: ev.SplitLeased, time: float) -> None:
        self.splits.lease(event.row, event.task)

    def _split_done(self, event: ev.SplitDone, time: float) -> None:
        self.splits.complete(event.row, event.epoch, event.count, event.xor, event.bad, event.unread)
        self.train_ended = time

    def _bad_records_exceeded(self, event: ev.BadRecordsExceeded, time: float) -> None:
        """The verdict follows in its own event."""

    def _checkpoint_begun(self, event: ev.CheckpointBegun, time: float) -> None:
        self.saving = event.directory

    def _checkpoint_written(self, event: ev.CheckpointWritten, time: float) -> None:
        self.checkpoints[event.manifest] = event.positions
        self.newest_manifest = event.manifest
        self.step = max(self.step, event.step)
        if event.final:
            self.final_manifest = event.manifest

    def _evaluated(self, event: ev.Evaluated, time: float) -> None:
        self.metrics = dict(event.metrics)
        self.evaluations.take(event)

    def _noted(self, event: ev.WarmStarted | ev.StoppedEarly | ev.ExportDecided, time: float) -> None:
        self.evaluations.note(event)

    def _task_ended(self, event: ev.TaskEnded, time: float) -> None:
        task = self.tasks[event.task.role, event.task.index]
        self.splits.release(event.task)
        self._charge(task, time)
        task.last_cause = event.cause
        task.move(Stage.SUCCEEDED if event.cause == SUCCEEDED else Stage.ENDED)
        _blame(task, event, time)
        if event.cause == "slow":
            task.slow_hosts |= {task.host, task.node} - {""}
        task.refusals = task.refusals + 1 if event.cause == "bad_host" else 0
        if event.cause in OF_THE_HOST:
            for host in {task.host, task.node} - {""}:
                self.host_faults.setdefault(host, []).append(time)

    def _task_given_up(self, event: ev.TaskGivenUp, time: float) -> None:
        self.tasks[event.task.role, event.task.index].given_up = True

    def _process_ended(self, event: ev.ProcessEnded, time: float) -> None:
        self.restarts += 1
        task = self.tasks[event.task.role, event.task.index]
        task.process_ends = event.number or task.process_ends + 1
        task.in_place += 1
        _blame(task, event, time)

    def _told(
        self, event: ev.KillRequested | ev.TaskStalled | ev.ContainersAwaited | ev.GangReleased, time: float
    ) -> None:
        """For who reads the log: the state does not change by it."""

    def _workers_scaled(self, event: ev.WorkersScaled, time: float) -> None:
        self.workers = event.number
        for task in self.of_role("worker"):
            if task.stage in LIVE and not self.is_wanted(task):
                task.leaving = Leaving(SCALED_AWAY, f"{event.user} wants {event.number} workers")

    def _task_slow(self, event: ev.TaskSlow, time: float) -> None:
        task = self.tasks[event.task.role, event.task.index]
        if event.stays:
            task.stays_slow = True
            return
        rate = f"{event.samples_per_s:,.0f} samples/s in {event.seconds:.0f} s"
        task.leaving = Leaving("slow", f"{rate}, the median of the others is {event.median:,.0f} (`restart.slow`)")
        self.replaced_slow.append((time, event.task.index))

    def _order_given(self, event: ev.OrderGiven, time: float) -> None:
        self.orders, self.open_orders[event.order] = event.order, event

    def _order_done(self, event: ev.OrderDone, time: float) -> None:
        self.open_orders.pop(event.order, None)

    def _job_ending(self, event: ev.JobEnding, time: float) -> None:
        self.verdict, self.verdict_cause, self.diagnostics = event.state, event.cause, event.diagnostics
        self.first_task = event.first_task
        self.ending_since = time

    def _job_finished(self, event: ev.JobFinished, time: float) -> None:
        self.finished = True

    def _sample(self, event: ev.Sample, time: float) -> None:
        self.step = max(self.step, event.step)

    def _charge(self, task: Task, time: float) -> None:
        if task.running_since:
            seconds, spec = max(0.0, time - task.running_since), self.spec(task.id.role)
            self.core_seconds += seconds * spec.vcores
            self.memory_mib_seconds += seconds * spec.memory
            task.running_since = 0.0


def _blame(task: Task, event: ev.TaskEnded | ev.ProcessEnded, time: float) -> None:
    if CAUSES[event.cause].blame == "user":
        task.faults.append(Fault(time, event.cause, event.message))
        task.ends.append(time)
    elif CAUSES[event.cause].retried and event.cause not in WAITS:
        task.free_restarts += 1
        task.ends.append(time)


_Apply = Callable[[JobState, Any, float], None]
_APPLY: dict[type, _Apply] = {
    ev.JobStarted: JobState._job_started,
    ev.AmStarted: JobState._am_started,
    ev.ContainerRequested: JobState._container_requested,
    ev.ContainerAssigned: JobState._container_assigned,
    ev.ContainerRunning: JobState._container_running,
    ev.ContainerEnded: JobState._container_ended,
    ev.TaskRegistered: JobState._task_registered,
    ev.ContainersAwaited: JobState._told,
    ev.GangReleased: JobState._told,
    ev.GenerationStarted: JobState._generation_started,
    ev.GenerationEnded: JobState._generation_ended,
    ev.VariablesReady: JobState._variables_ready,
    ev.WarmStarted: JobState._noted,
    ev.SplitLeased: JobState._split_leased,
    ev.SplitDone: JobState._split_done,
    ev.BadRecordsExceeded: JobState._bad_records_exceeded,
    ev.CheckpointBegun: JobState._checkpoint_begun,
    ev.CheckpointWritten: JobState._checkpoint_written,
    ev.Evaluated: JobState._evaluated,
    ev.StoppedEarly: JobState._noted,
    ev.ExportDecided: JobState._noted,
    ev.TaskEnded: JobState._task_ended,
    ev.TaskGivenUp: JobState._task_given_up,
    ev.ProcessEnded: JobState._process_ended,
    ev.KillRequested: JobState._told,
    ev.TaskStalled: JobState._told,
    ev.TaskSlow: JobState._task_slow,
    ev.WorkersScaled: JobState._workers_scaled,
    ev.OrderGiven: JobState._order_given,
    ev.OrderDone: JobState._order_done,
    ev.JobEnding: JobState._job_ending,
    ev.JobFinished: JobState._job_finished,
    ev.Sample: JobState._sample,
}
if set(_APPLY) != set(get_args(ev.AnyEvent)):
    raise InvalidState("an event has no way into the state")

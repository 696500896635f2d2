"""State of a job: a function of its events. `afo_am.state.apply` changes what the journal covers. Pure."""

from collections.abc import Iterator

from afo.errors import AfoError
from afo.events import types as ev
from afo.events.accounting import Position
from afo.events.master_starts import MasterStarts
from afo.job import ROLES, Role, RoleSpec
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.protocol.train_task import Progress
from afo.rpc.messages import TaskId
from afo_am.state.evaluations import Evaluations
from afo_am.state.gang_backoff import GangBackoff
from afo_am.state.split_queue import SplitQueue
from afo_am.state.tasks import Holder, Stage, Task

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
        #: File or part of each split, by its number.
        self.files: list[InputFile] = []
        self.splits = SplitQueue(job.data.epochs, job.data.shuffle.seed, job.data.shuffle.files)
        #: How many of them there were when the present generation started.
        self.splits_at_start = 0
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
        #: The step of each.
        self.checkpoint_steps: dict[str, int] = {}
        self.newest_manifest = ""
        #: Directory of the checkpoint that the chief began last.
        self.saving = ""
        self.final_manifest = ""
        self.evaluations = Evaluations(job.export, job.train.early_stop, job.train.eval_every)
        self.step = 0
        #: Step that the job itself began with: above 0 after a warm start.
        self.first_step = 0
        #: '' while the job runs; then SUCCEEDED, FAILED or KILLED, for ever.
        self.verdict = ""
        self.verdict_cause = ""
        self.diagnostics = ""
        self.first_task: TaskId | None = None
        self.ending_since = 0.0
        #: The job's last event once it is there; what the verdict file holds.
        self.finished: ev.JobFinished | None = None
        self.started = 0.0
        self.incarnation = 0
        #: YARN's number of the application attempt that wrote last; 0 before the first.
        self.am_attempt = 0
        #: Where it ran, and the wall clock of the last event.
        self.am_host = ""
        self.heard = 0.0
        self.restarts = 0
        #: Wall clock times of ends that were a machine's fault, by each name of the host.
        self.host_faults: dict[str, list[float]] = {}
        #: Wall clock and index of workers that were replaced for being slow, oldest first.
        self.replaced_slow: list[tuple[float, int]] = []
        self.gang = GangBackoff()
        self.masters = MasterStarts()
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

    def count_wanted(self, role: Role) -> int:
        """How many tasks of a role are wanted now."""
        return self.workers if role == "worker" else self.spec(role).count

    def is_wanted(self, task: Task) -> bool:
        """False for a worker that was scaled away, or is to be."""
        return task.id.index < self.count_wanted(task.id.role)

    def stays(self, task: Task) -> bool:
        """Whether the task's process goes over into the next generation when a parameter server is lost."""
        return self.config.job.clients_stay and task.id.role in ("chief", "worker")

    def generation_of(self, task: Task, told: int, progress: Progress | None) -> int:
        """The generation that a task's process is in: as its Child `told`, or by its own word where it stays.

        Such a process hears of the next generation before its Child, or after it.
        """
        said = progress.generation if progress is not None and self.stays(task) else 0
        return said or told

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

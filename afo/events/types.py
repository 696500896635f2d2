"""Types of the events of a job, which `afo.events.event_log` writes and reads; no I/O."""

from msgspec import Struct

from afo.job import Role
from afo.protocol.export_gate import Check, Fall
from afo.protocol.input_file import InputFile
from afo.protocol.input_wait import InputBound
from afo.protocol.train_task import Progress
from afo.rpc.messages import HashTables, OrderKind, ServerPart, TaskId, Usage


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""


class JobStarted(Event, frozen=True):
    """The first event of a job."""

    job_id: str
    name: str
    user: str
    queue: str
    runtime: str
    afo_version: str
    submitted: float
    eval_files: tuple[str, ...]
    epochs: int
    #: Until version 4 of the log all splits, by what each is called; None since then (`SplitsAdded`).
    train_files: tuple[str, ...] | None = None


class SplitsAdded(Event, frozen=True):
    """The job has more training splits, numbered from `first` on. `closed`: no others come after them.

    A long list takes several (`afo.events.split_list`). A job without training files has one that adds none.
    """

    first: int
    splits: tuple[InputFile, ...]
    closed: bool


class AmStarted(Event, frozen=True):
    """An Application Master began, for the first time or again."""

    am_attempt: int
    incarnation: int
    address: str
    host: str
    pid: int
    #: Where it answers `/metrics`; '' where it does not.
    metrics: str = ""
    #: The cause for which it had to wait before it could write: `disk_full` or `storage_unreachable`.
    waited_for: str = ""
    #: How the one before ended, as its supervisor saw; '' of a first start and of another container's.
    previous_end: str = ""


class ContainerRequested(Event, frozen=True):
    """The AM asks for a container. Memory in MiB."""

    task: TaskId
    memory: int
    vcores: int
    reason: str = ""


class ContainerAssigned(Event, frozen=True):
    """The runtime named the request."""

    task: TaskId
    handle: str


class ContainerRunning(Event, frozen=True):
    """The runtime says that the container runs."""

    task: TaskId
    handle: str
    container: str
    host: str


class ContainerEnded(Event, frozen=True):
    """The runtime says that the container is over."""

    task: TaskId
    handle: str
    diagnostics: str
    exit_code: int | None = None


class TaskRegistered(Event, frozen=True):
    """The Child of a task is up."""

    task: TaskId
    container: str
    host: str
    pid: int
    log_url: str
    environment: dict[str, str]


class TaskAtWork(Event, frozen=True):
    """A process of the task is at work: of a chief or worker it has made its first step, of a program it runs, of an
    evaluator it looks for checkpoints. Once a process; as a heartbeat told it."""

    task: TaskId
    generation: int


class ContainersAwaited(Event, frozen=True):
    """Why tasks wait for containers; once a minute at most, where the reason or their number is another one."""

    message: str


class GangReleased(Event, frozen=True):
    """No container for what the gang lacks (`missing`) in `waited_s`: the `held` ones are given back for `pause_s`."""

    missing: str
    held: int
    waited_s: float
    pause_s: float


class GenerationStarted(Event, frozen=True):
    """All tasks that listen have an address; the processes may run. `cluster`: of a program, by role.

    Of a program with `restart.scope: task` it may come again for a generation: a task has moved.
    """

    generation: int
    ps: tuple[str, ...]
    cluster: dict[Role, tuple[str, ...]] = {}


class GenerationEnded(Event, frozen=True):
    """A parameter server, or a listening task of a program, is gone: back to `manifest` ('' for the beginning).

    Parameter servers in `kept` go on with what they hold (`checkpoint.on_ps_loss: partial`), and so do the data.
    `step`, `samples`: how far the model had been trained, by the last heartbeats; None where that is not known.
    """

    generation: int
    reason: str
    manifest: str
    kept: tuple[int, ...] = ()
    step: int | None = None
    samples: int | None = None


class VariablesReady(Event, frozen=True):
    """The chief initialised the variables, or restored them, those of the parameter servers in `kept` aside.

    Then the data go on at `positions` (split, epoch, count, xor), and the other servers lack the updates of the
    `lost_samples` that were applied after `restored`. `passed_over`: why newer checkpoints were not taken. `samples`:
    those that the model was trained on, None where that is not known.
    """

    task: TaskId
    generation: int
    restored: str
    step: int
    kept: tuple[int, ...] = ()
    lost_samples: int = 0
    positions: tuple[tuple[int, int, int, int], ...] = ()
    passed_over: tuple[str, ...] = ()
    samples: int | None = None


class WarmStarted(Event, frozen=True):
    """What the model began with: the parts of an earlier one (`afo.rpc.messages.WarmStart`)."""

    task: TaskId
    generation: int
    step: int
    source: str
    passed_over: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    made_new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class SplitLeased(Event, frozen=True):
    """A worker reads a file."""

    task: TaskId
    split: int
    epoch: int
    resume: bool


class SplitDone(Event, frozen=True):
    """All of a file's records were applied; `bad` of them were skipped, of which `unread` are not in `count`."""

    task: TaskId
    split: int
    epoch: int
    count: int
    xor: int
    bad: int = 0
    unread: int = 0
    #: Where one bad record stands (file and offset) and what is wrong with it.
    first_bad: str = ""


class BadRecordsExceeded(Event, frozen=True):
    """More records are bad than `data.max_bad_records` allows of those read; `place` is where one of them stands."""

    task: TaskId
    bad: int
    records: int
    allowed: float
    place: str


class CheckpointBegun(Event, frozen=True):
    """The chief starts to save into `directory`; `CheckpointWritten` follows unless something comes between."""

    task: TaskId
    generation: int
    directory: str
    final: bool


class CheckpointWritten(Event, frozen=True):
    """A manifest is complete. `positions`: (split, epoch, count, xor); `hash_tables`: None of a model without any;
    `servers`: what saving each one's part took."""

    task: TaskId
    generation: int
    step: int
    manifest: str
    positions: tuple[tuple[int, int, int, int], ...]
    final: bool
    hash_tables: HashTables | None = None
    servers: tuple[ServerPart, ...] = ()


class VersionExported(Event, frozen=True):
    """A version of the model was written, while the job trains or at its end. `parent`: the one whose changes it has,
    None: it is whole; `seconds`: from the start of its export on, None where the chief ended before it could report it
    and a later one did; `metrics`: of its evaluation, where a gate awaited one."""

    task: TaskId
    version: int
    parent: int | None
    step: int
    manifest: str
    bytes: int
    seconds: float | None
    metrics: dict[str, float] = {}


class VersionWithheld(Event, frozen=True):
    """A checkpoint does not become a version: the bounds of `export.require` that do not hold for it, or not for the
    mean over the window. `since`: the version before, with which `auc_drop` compares; None: there is none yet."""

    step: int
    manifest: str
    checks: tuple[Check, ...]
    since: int | None = None


class Evaluated(Event, frozen=True):
    """Metrics of a checkpoint."""

    task: TaskId
    step: int
    manifest: str
    metrics: dict[str, float]
    final: bool
    falls: tuple[Fall, ...] = ()
    #: Checkpoints before it that were due and were not evaluated, since newer ones came.
    passed_over: int = 0


class StoppedEarly(Event, frozen=True):
    """`train.early_stop`: so many evaluations brought no better `metric` than `best`. The training ends."""

    step: int
    metric: str
    best: float
    evaluations: int


class ExportDecided(Event, frozen=True):
    """What the quality gate made of the checkpoint to be exported."""

    manifest: str
    step: int
    allowed: bool
    #: All that was measured of it.
    metrics: dict[str, float] = {}
    checks: tuple[Check, ...] = ()
    #: Of an earlier checkpoint, which was better than the last by this metric: its value, the last one's, and its step.
    metric: str = ""
    value: float = 0.0
    last_value: float = 0.0
    last_step: int = 0


class TaskEnded(Event, frozen=True):
    """A task's attempt is over; `cause` is a name of `afo.failures.causes.CAUSES`."""

    task: TaskId
    cause: str
    code: int | None
    message: str
    tail: str = ""
    progress: Progress | None = None
    usage: Usage = Usage()
    #: Seconds before this event in which it had made no step, had not been heard of, or had been gone already.
    idle_s: float = 0.0


class TaskGivenUp(Event, frozen=True):
    """A task is not started again, and the job goes on without it."""

    task: TaskId
    reason: str


class ProcessEnded(Event, frozen=True):
    """A process failed, its Child and container stay; `cause` is a name of `afo.failures.causes.CAUSES`."""

    task: TaskId
    cause: str
    code: int
    message: str
    tail: str = ""
    #: Of such ends in this attempt, the first, second, …
    number: int = 0
    #: Seconds before this event in which it had been gone already.
    idle_s: float = 0.0


class TaskStalled(Event, frozen=True):
    """A busy task has made no step for `timeouts.hang`. `place`: the code that its main thread is in, '' if unknown.

    `unresponsive`: of a parameter server that does not answer, or a process that was stopped, the words for that.
    """

    task: TaskId
    seconds: float
    place: str
    #: The beginning of all its stacks; the task's stderr has the rest.
    stacks: str
    unresponsive: str = ""


class TaskSlow(Event, frozen=True):
    """A worker's rate stayed below `restart.slow.below` of the median of the others for `seconds`.

    It is replaced, unless `stays` says why not.
    """

    task: TaskId
    samples_per_s: float
    median: float
    seconds: float
    stays: str = ""


class WorkersScaled(Event, frozen=True):
    """Somebody wants `number` workers from now on, in place of `before`."""

    user: str
    number: int
    before: int


class KillRequested(Event, frozen=True):
    """Somebody wants the job to end."""

    user: str
    reason: str


class OrderGiven(Event, frozen=True):
    """Somebody wants something of a live task. Of a command only the program's name: arguments may hold secrets."""

    task: TaskId
    order: int
    kind: OrderKind
    user: str
    program: str = ""


class OrderDone(Event, frozen=True):
    """An order is carried out, or could not be (`failed`), and why not; of `exec` nothing that it wrote is kept."""

    task: TaskId
    order: int
    failed: bool
    code: int | None = None
    problem: str = ""


class JobEnding(Event, frozen=True):
    """The verdict is reached; tasks are being ended. `first_task` is the one that failed first, if one did."""

    state: str
    cause: str
    diagnostics: str
    first_task: TaskId | None = None


class JobFinished(Event, frozen=True):
    """The last event of a job. Times in seconds, `memory_gb_hours` over all containers."""

    state: str
    cause: str
    diagnostics: str
    #: Of the checkpoint to be exported, before that is decided of the one that was evaluated last.
    metrics: dict[str, float]
    samples: int
    step: int
    seconds: float
    core_hours: float
    memory_gb_hours: float
    restarts: int
    #: From the first step to the last acknowledged file, and the share of the step time that training waited for input.
    train_seconds: float = 0.0
    input_wait: float = 0.0
    #: What bounds the input, where training waited for it notably (`afo.protocol.input_wait`).
    input_bound: InputBound | None = None
    #: Training records that were skipped.
    bad_records: int = 0
    #: Manifest of the checkpoint to be exported, once an evaluator's measurements decided on one.
    export: str = ""


class Sample(Event, frozen=True):
    """How the job does: every few seconds at first, then about once in 30 s, and once at its end; for curves."""

    step: int
    samples: int
    samples_per_s: float
    input_wait: float
    loss: float | None
    #: Updates by others while a worker's step runs, in the mean; None where that is not known.
    staleness: float | None = None
    #: Share of the job's steps that are made, 0 to 1, and the seconds until the last; None where that is not known.
    progress: float | None = None
    seconds_left: float | None = None


class TaskUse(Struct, frozen=True, kw_only=True):
    """What a task's processes use now, and at most since its container began: bytes, and seconds of all cores."""

    task: TaskId
    rss: int
    peak_rss: int
    cpu_s: float


class TasksUsed(Event, frozen=True):
    """What the tasks that run use, about once a minute for up to 100 of them; for curves."""

    tasks: tuple[TaskUse, ...]


AnyEvent = (
    JobStarted
    | SplitsAdded
    | AmStarted
    | ContainerRequested
    | ContainerAssigned
    | ContainerRunning
    | ContainerEnded
    | TaskRegistered
    | TaskAtWork
    | ContainersAwaited
    | GangReleased
    | GenerationStarted
    | GenerationEnded
    | VariablesReady
    | WarmStarted
    | SplitLeased
    | SplitDone
    | BadRecordsExceeded
    | CheckpointBegun
    | CheckpointWritten
    | VersionExported
    | VersionWithheld
    | Evaluated
    | StoppedEarly
    | ExportDecided
    | TaskEnded
    | TaskGivenUp
    | ProcessEnded
    | TaskStalled
    | TaskSlow
    | WorkersScaled
    | KillRequested
    | OrderGiven
    | OrderDone
    | JobEnding
    | JobFinished
    | Sample
    | TasksUsed
)

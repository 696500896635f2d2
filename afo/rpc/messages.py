"""The messages of the protocol; msgpack on the wire.

Every message of a task says who speaks (`TaskId`: role, index, attempt) and of which generation: the AM refuses what
comes from an attempt it has given up or from a generation that has ended.
"""

from typing import Literal

from msgspec import Struct

from afo.job import Role
from afo.protocol.export_gate import Fall
from afo.protocol.input_wait import InputBound
from afo.protocol.train_task import Progress
from afo.storage.url import ByteRange

#: Raised by one whenever a message changes in a way that an older peer cannot read.
PROTOCOL = 14


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


class TaskId(Message, frozen=True):
    """One container's life in one role and index; `attempt` counts from 0 and never repeats."""

    role: Role
    index: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.role}:{self.index}"


class Usage(Message, frozen=True):
    """What a task's processes use. Memory in bytes, CPU in seconds since the start, I/O in bytes since the start."""

    rss: int = 0
    peak_rss: int = 0
    cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0


class ProcessWork(Message, frozen=True):
    """What a task's present process has done, by the kernel. Bytes read and written are those of pipes and of files in
    memory too."""

    cpu_s: float = 0.0
    moved_bytes: int = 0


class RegisterRequest(Message, frozen=True):
    """A Child is up. `address` is the host:port kept free for a TensorFlow server of a parameter server, else ''."""

    task: TaskId
    container: str
    host: str
    pid: int
    afo_version: str
    protocol: int
    #: What the Child found: python, tensorflow, glibc, cores, limits, MALLOC_ARENA_MAX as given … (no secrets).
    environment: dict[str, str]
    log_url: str


#: exec        run a command in the working directory and with the environment of the task's process
#: stacks      where each thread of the task's process stands
#: kill        end the task's process; the task comes back as after any other end
#: checkpoint  have the chief save at its next step
#: profile     have the task's process take a profile of itself for so many seconds (its argument)
OrderKind = Literal["exec", "stacks", "kill", "checkpoint", "profile"]
#: Those with arguments.
WITH_ARGUMENTS: tuple[OrderKind, ...] = ("exec", "profile")


class Order(Message, frozen=True):
    """What a Child is to do once, because somebody asked for it. Numbers never repeat within a job."""

    order: int
    kind: OrderKind
    argv: tuple[str, ...] = ()


class Directive(Message, frozen=True):
    """What the AM wants of a Child now. It is a state, not an order: the same directive twice changes nothing.

    wait  no TensorFlow process of an older generation may run; a PS reserves a port and names it in its heartbeats
    run   the TensorFlow process of this generation runs
    end   stop everything, upload the logs, exit with 0
    """

    action: Literal["wait", "run", "end"]
    generation: int
    #: The earliest generation in which a process may have begun that goes on in this one: of a parameter server that
    #: keeps what it holds, and of chief and workers that stay when one is lost (`Job.clients_stay`). 0: this one alone.
    since: int = 0
    ps: tuple[str, ...] = ()
    num_workers: int = 0
    #: Splits that there were when the generation started; more may have come since.
    splits_at_start: int = 0
    is_chief: bool = False
    #: Of a program: the addresses of all tasks that listen, by role, in order of their index.
    cluster: dict[Role, tuple[str, ...]] = {}
    reason: str = ""
    #: Ends of this attempt's process after which it is time to start it anew in its container (`ExitReport.number`).
    starts: int = 0
    heartbeat_s: float = 1.0
    #: Number of the newest delegation tokens, 0 where there are none but YARN's; the Child fetches what it lacks.
    tokens: int = 0
    #: Not a part of the state: named until a heartbeat says that the Child has them.
    orders: tuple[Order, ...] = ()

    @property
    def oldest(self) -> int:
        """Generation of the oldest process that may run."""
        return self.since or self.generation

    @property
    def addresses(self) -> frozenset[str]:
        """Every address that a task of this generation is to listen on."""
        return frozenset(self.ps).union(*self.cluster.values())


class HeartbeatRequest(Message, frozen=True):
    """A Child lives. `address` is the PS address reserved for `generation`, '' when there is none."""

    task: TaskId
    generation: int
    address: str = ""
    process_alive: bool = False
    #: That somebody has stopped its process, in words; '' if nobody has.
    halted: str = ""
    progress: Progress | None = None
    usage: Usage = Usage()
    work: ProcessWork = ProcessWork()
    log_bytes: int = 0
    log_dropped: int = 0
    #: Orders that the Child has taken and whose results it has not delivered.
    orders: tuple[int, ...] = ()


class TokensRequest(Message, frozen=True):
    """A Child asks for the newest delegation tokens."""

    task: TaskId


class TokensReply(Message, frozen=True):
    """A file of delegation tokens (`afo.hadoop.delegation_tokens`), which are secrets."""

    number: int
    content: bytes


class ExitReport(Message, frozen=True):
    """The TensorFlow process ended; `ExitReply` says whether the Child does."""

    task: TaskId
    generation: int
    #: Exit code, or -signal.
    code: int
    #: A name of `afo.failures.causes.CAUSES`.
    cause: str
    #: Last lines of its output.
    tail: str
    progress: Progress | None = None
    usage: Usage = Usage()
    #: The Child could start the process anew in its container.
    stays: bool = False
    #: Of such ends in this attempt, the first, second, …
    number: int = 0
    #: Seconds that it had been gone when this was sent: an Application Master that was away hears of it late.
    idle_s: float = 0.0


class ExitReply(Message, frozen=True):
    """What becomes of the Child: it waits for a directive, or exits."""

    stays: bool = False


class SplitRequest(Message, frozen=True):
    """A worker wants a file to read.

    `holding` are the splits it has and did not acknowledge yet: one that it should have and does not name (its process
    was started anew in place, or the reply was lost) is given to it again. `epochs` are theirs: one that it names and
    that is free, since a disk lost the end of the journal, stays its own.
    """

    task: TaskId
    generation: int
    holding: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()


class SplitReply(Message, frozen=True):
    """A file to read, or a part of it, `wait` (all are leased, some may come back) or the `end` of the data.

    `resume`: the split was leased before in this epoch: its position on the parameter server says where to go on.
    """

    state: Literal["lease", "wait", "end"]
    split: int = -1
    epoch: int = 0
    url: str = ""
    resume: bool = False
    part: ByteRange | None = None


class SplitAck(Message, frozen=True):
    """All records of a file were applied: how many, and the xor of their hashed sample ids (unsigned 64 bits).

    `bad` records were skipped. Those of them that could not even be read (`unread`) are not in `count` and `xor`.
    `first_bad` says of one of them where it stands and what is wrong with it.
    """

    task: TaskId
    generation: int
    split: int
    epoch: int
    count: int
    xor: int
    bad: int = 0
    unread: int = 0
    first_bad: str = ""


class WarmStart(Message, frozen=True):
    """What became of an earlier model's parts. `source` is its manifest, '' if there was none and none was needed.

    Each text names a part (a feature, a cross, a layer), why, and the tensors that it lies in.
    """

    source: str
    #: Sources before it that could not be taken, and why.
    passed_over: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    made_new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class ReadyReport(Message, frozen=True):
    """The chief: variables of this generation are initialised, or restored from `restored` (a manifest's URL).

    A warm start is an initialisation: `restored` names a checkpoint of this job alone. `positions` (split, epoch,
    count, xor) say where the data stand if some parameter servers kept what they held. `passed_over`: why newer
    checkpoints were not taken.
    """

    task: TaskId
    generation: int
    restored: str = ""
    step: int = 0
    warm_start: WarmStart | None = None
    positions: tuple[tuple[int, int, int, int], ...] = ()
    passed_over: tuple[str, ...] = ()


class ReadyRequest(Message, frozen=True):
    """May a worker start its steps?"""

    task: TaskId
    generation: int


class ReadyReply(Message, frozen=True):
    """`ready`, and for the chief the newest manifest to restore ('' for a fresh start).

    Parameter servers in `kept` hold what is right, so they are not restored. `first_step` is the step that the job
    itself began with, above 0 after a warm start; `stop` says that the training is to end early; `exported_version`
    is the last version of the model that was reported, 0 where none was.
    """

    ready: bool
    restore: str = ""
    kept: tuple[int, ...] = ()
    first_step: int = 0
    stop: bool = False
    exported_version: int = 0


class ServersRequest(Message, frozen=True):
    """Chief or worker: it cannot go on with the parameter servers of generation `known`.

    One of them is gone, or answers that it is of another generation, or a call was refused with `GenerationOver`.
    """

    task: TaskId
    known: int


class ServersReply(Message, frozen=True):
    """Where the parameter servers are.

    run   all servers of `generation` have an address. If it is `known`, no loss is known: try them again, and ask again
    wait  a server of `generation` has no address yet
    end   the chief is done, so lost servers do not come back: end as at the end of the data, in `generation`
    """

    state: Literal["wait", "run", "end"]
    generation: int
    ps: tuple[str, ...] = ()
    #: As in `Directive`.
    splits_at_start: int = 0


class EvalReport(Message, frozen=True):
    """The evaluator: metrics of one checkpoint, e.g. auc, log_loss, calibration, samples."""

    task: TaskId
    generation: int
    step: int
    manifest: str
    metrics: dict[str, float]
    #: True for the checkpoint that ended the training.
    final: bool = False
    #: Features whose coverage fell most since the model that the training was warm-started from.
    falls: tuple[Fall, ...] = ()
    #: Checkpoints before it that were due and were not evaluated, since newer ones came.
    passed_over: int = 0


class SavingReport(Message, frozen=True):
    """The chief is about to save into `directory`, which no other checkpoint has."""

    task: TaskId
    generation: int
    directory: str
    final: bool = False


class HashTables(Message, frozen=True):
    """All hash tables of a job at a checkpoint: rows, bytes of their memory on all servers, what waits for admission
    included, and how many rows were evicted just before it."""

    rows: int
    bytes: int
    evicted: int


class ServerPart(Message, frozen=True):
    """What a checkpoint holds of one parameter server: bytes, and seconds that its streams waited for the server and
    for the file system."""

    server: int
    bytes: int = 0
    read_s: float = 0.0
    write_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Altogether; streams that ran at the same time are added."""
        return self.read_s + self.write_s


class CheckpointReport(Message, frozen=True):
    """The chief: a manifest was written. `acked` are splits and epochs that the position in it holds as complete."""

    task: TaskId
    generation: int
    step: int
    manifest: str
    #: (split, epoch, count, xor) as read from `afo/positions` together with the variables.
    positions: tuple[tuple[int, int, int, int], ...]
    final: bool = False
    #: None of a model without any.
    hash_tables: HashTables | None = None
    servers: tuple[ServerPart, ...] = ()


class VersionReport(Message, frozen=True):
    """The chief: a version of the model was exported. `parent`: the one whose changes it has, None: it is whole;
    `seconds`: None of one that an earlier chief exported and did not report; `metrics`: those of the `VersionReply`."""

    task: TaskId
    generation: int
    version: int
    parent: int | None
    step: int
    manifest: str
    bytes: int
    seconds: float | None
    metrics: dict[str, float] = {}


class VersionRequest(Message, frozen=True):
    """The chief, while it trains: which checkpoint may become the next version?"""

    task: TaskId
    generation: int


class VersionReply(Message, frozen=True):
    """The newest one for which `export.require` holds, with its metrics; '' where none is newer than the last one."""

    manifest: str = ""
    metrics: dict[str, float] = {}


class CheckpointReply(Message, frozen=True):
    """Manifests that the chief must not delete, however many newer ones there are."""

    protected: tuple[str, ...] = ()


class ExportRequest(Message, frozen=True):
    """The chief wrote the final checkpoint: what may it export?"""

    task: TaskId
    generation: int


class ExportReply(Message, frozen=True):
    """`wait` for the evaluator, `export` the checkpoint of `manifest`, or `refused` by `reasons`."""

    state: Literal["wait", "export", "refused"]
    manifest: str = ""
    reasons: tuple[str, ...] = ()


class Empty(Message, frozen=True):
    """Nothing more to say."""


class StatusRequest(Message, frozen=True):
    """A client wants to know how the job does."""


class TaskStatus(Message, frozen=True):
    """One task as the AM sees it."""

    task: TaskId
    state: str
    container: str = ""
    host: str = ""
    progress: Progress | None = None
    usage: Usage = Usage()
    log_url: str = ""


class MasterStart(Message, frozen=True):
    """The Application Master began again, `time` in seconds since 1970: in its container, or as the next attempt.

    `number`: of such losses, from 1; `was_on`: the host of the one before; `tasks`: how many ended with it; `why`: the
    cause for which this one had to wait, and how the one before ended itself, as far as that is known.
    """

    number: int
    attempt: int
    host: str
    was_on: str
    time: float
    tasks: int = 0
    why: str = ""


class StatusReply(Message, frozen=True):
    """The job as the AM sees it."""

    job_id: str
    name: str
    state: str
    generation: int
    message: str
    tasks: tuple[TaskStatus, ...]
    step: int
    samples: int
    samples_per_s: float
    input_wait: float
    loss: float | None
    metrics: dict[str, float]
    splits_done: int
    splits_total: int
    started: float
    #: Attempts after an end, and processes started anew in place; a request that is only made again is none.
    restarts: int = 0
    #: What a person should know of how the model came about (`afo.events.model_notes`).
    notes: tuple[str, ...] = ()
    #: What bounds the input, where training waits for it notably (`afo.protocol.input_wait`).
    input_bound: InputBound | None = None
    #: Share of the job's steps that are made, 0 to 1, and the seconds until the last; None where that is not known.
    progress: float | None = None
    seconds_left: float | None = None
    #: The last time that the Application Master was lost.
    master: MasterStart | None = None
    #: As in `afo.events.types.Sample`.
    staleness: float | None = None


class KillRequest(Message, frozen=True):
    """A client ends the job."""

    user: str
    reason: str = ""


class ScaleRequest(Message, frozen=True):
    """A client wants so many workers from now on."""

    user: str
    workers: int


class ScaleReply(Message, frozen=True):
    """How many were wanted before; the same number changes nothing."""

    before: int


class OrderRequest(Message, frozen=True):
    """A client wants something of a live task; of the chief if `kind` is `checkpoint`, whatever the task."""

    user: str
    kind: OrderKind
    role: Role = "worker"
    index: int = 0
    #: Of `exec`: program and arguments; no shell reads them. Of `profile`: the seconds.
    argv: tuple[str, ...] = ()


class OrderReply(Message, frozen=True):
    """The number to ask for the result with."""

    order: int


class OrderStatusRequest(Message, frozen=True):
    """A client asks what became of its order."""

    order: int


class OrderStatusReply(Message, frozen=True):
    """`code` is the exit code or -signal of an `exec` that ended; `output` of a failed order says why it failed."""

    state: Literal["waiting", "running", "done", "failed"]
    code: int | None = None
    output: str = ""
    #: More had been written than is kept.
    truncated: bool = False


class OrderResult(Message, frozen=True):
    """A Child: an order is carried out, or could not be."""

    task: TaskId
    order: int
    failed: bool = False
    code: int | None = None
    output: str = ""
    truncated: bool = False
    #: Of `stacks`: the Python code that the main thread is in, in a line.
    place: str = ""
    #: Of `stacks`, with the state of the process: that a parameter server does not answer, or another was stopped.
    unresponsive: str = ""

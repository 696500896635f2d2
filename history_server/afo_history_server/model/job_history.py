"""A job as its pages show it. Pure."""

from msgspec import Struct, structs

from afo.events import event_log
from afo.events import types as ev
from afo.events.downtime import Downtime, Outage
from afo.events.job_costs import Costs
from afo.failures.causes import CAUSES, HARMLESS, UNSTARTED, Cause
from afo.job import Acls, Role
from afo.protocol.export_gate import Check
from afo.protocol.input_wait import InputBound
from afo.rpc.messages import HashTables, ServerPart, TaskId

FINAL = ("SUCCEEDED", "FAILED", "KILLED")
#: Of a job: no Application Master yet, no generation of tasks yet, all that follows.
STATES = ("SUBMITTED", "STARTING", "RUNNING", "ENDING", *FINAL, "UNREADABLE")
AnyRecord = event_log.Record | event_log.UnknownRecord


class UsePoint(Struct, frozen=True, kw_only=True):
    """What a task used at a time: bytes of memory, and cores since the point before; None at the first."""

    time: float
    rss: int
    cores: float | None


class Attempt(Struct, frozen=True, kw_only=True):
    """One container's life in one role and index. Times in seconds since 1970, 0 while unknown; `memory` in MiB."""

    role: Role
    index: int
    attempt: int
    requested: float = 0.0
    started: float = 0.0
    registered: float = 0.0
    ended: float = 0.0
    host: str = ""
    container: str = ""
    memory: int = 0
    vcores: int = 0
    cause: str = ""
    code: int | None = None
    message: str = ""
    tail: str = ""
    #: Bytes at most, and seconds of all cores together, as far as they are known.
    peak_rss: int = 0
    cpu_s: float = 0.0
    #: Over its time, thinned out.
    use: tuple[UsePoint, ...] = ()
    #: When its process restarted in the same container.
    restarted: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The task's name."""
        return f"{self.role}:{self.index}"

    @property
    def state(self) -> str:
        """Where it stands, or how it ended."""
        if self.ended:
            return self.cause or "ended"
        return "running" if self.registered else "starting" if self.started else "waiting"

    @property
    def failed(self) -> bool:
        """It ended, and neither because its work was done nor because it had no container."""
        return bool(self.ended) and self.cause not in HARMLESS and self.cause not in UNSTARTED


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A complete manifest. `seconds`: since the chief began to save, None where that is not known.

    `hash_tables`: all of the model together; None of a model without any. `servers`: the slowest first.
    """

    time: float
    seconds: float | None = None
    step: int
    generation: int
    manifest: str
    final: bool
    hash_tables: HashTables | None = None
    servers: tuple[ServerPart, ...] = ()


class Evaluation(Struct, frozen=True, kw_only=True):
    """Metrics of a checkpoint."""

    time: float
    step: int
    metrics: dict[str, float]
    final: bool


class CurvePoint(Struct, frozen=True, kw_only=True):
    """How the job did at a moment; `input_wait` is a share."""

    time: float
    step: int
    samples_per_s: float
    input_wait: float
    loss: float | None
    staleness: float | None = None


class FileProgress(Struct, frozen=True, kw_only=True, rename={"split": "row"}):
    """The newest pass over a training file that is part of the model: `epoch` from 0, `bad` records skipped.

    In `/api/v1` the number of the split is called `row`.
    """

    split: int
    epoch: int
    count: int
    bad: int
    first_bad: str
    task: str
    time: float


class DataProgress(Struct, frozen=True, kw_only=True):
    """How far the data were applied. `passes` of `files` times `epochs` are done; records are of all passes."""

    files: int = 0
    epochs: int = 0
    passes: int = 0
    records: int = 0
    bad: int = 0
    #: Records that were applied, undone by a return to a checkpoint, and read again.
    undone: int = 0
    #: A sentence on passes over the same file that applied other records, if there are any.
    differing: tuple[str, ...] = ()


class Beginning(Struct, frozen=True, kw_only=True):
    """The earlier model that the training began with; features by name, each with why."""

    source: str
    step: int
    kept: tuple[str, ...] = ()
    made_new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    #: Models that would have come before it, and why they were not taken.
    passed_over: tuple[str, ...] = ()


class Export(Struct, frozen=True, kw_only=True):
    """What was decided of the checkpoint that was to be exported."""

    time: float
    manifest: str
    step: int
    allowed: bool
    metrics: dict[str, float] = {}
    checks: tuple[Check, ...] = ()


class Profile(Struct, frozen=True, kw_only=True):
    """One that was taken of a live task, or could not be: `name` is empty then, and `problem` says why."""

    time: float
    task: str
    name: str
    problem: str = ""


class Restart(Struct, frozen=True, kw_only=True):
    """Something began again."""

    time: float
    what: str
    why: str


class JobHistory(Struct, frozen=True, kw_only=True):
    """A job at one moment. `input_wait` is a share; `seconds` is known once it has ended."""

    job_id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    runtime: str = ""
    tags: dict[str, str] = {}
    #: What people wrote to it, and why that cannot be read.
    notes: str = ""
    notes_problem: str = ""
    #: Of notes and tags together, see `Annotations.version`.
    notes_version: str = ""
    #: Settings that somebody said, by their paths in the job file; secrets left out.
    params: dict[str, str] = {}
    acls: Acls = Acls()
    afo_version: str = ""
    state: str = "SUBMITTED"
    cause: str = ""
    diagnostics: str = ""
    #: What it waits for before it can go on, and why; '' where it does not.
    waiting: str = ""
    submitted: float = 0.0
    started: float = 0.0
    seconds: float | None = None
    last_event: float = 0.0
    #: `host:port` where its Application Master answers `/metrics`; '' where it does not.
    metrics_address: str = ""
    step: int = 0
    samples: int = 0
    samples_per_s: float | None = None
    #: Share of the job's steps that are made, and the seconds until the last.
    progress: float | None = None
    seconds_left: float | None = None
    input_wait: float | None = None
    input_bound: InputBound | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}
    core_hours: float | None = None
    memory_gb_hours: float | None = None
    #: So far, by the event log.
    costs: Costs = Costs()
    restart_count: int = 0
    first_task: TaskId | None = None
    attempts: tuple[Attempt, ...] = ()
    #: Later ones, of which nothing is told.
    attempts_left_out: int = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    #: Checkpoints that were due and were not evaluated.
    not_evaluated: int = 0
    profiles: tuple[Profile, ...] = ()
    beginning: Beginning | None = None
    export: Export | None = None
    #: A sentence on the versions that were exported, if there are any.
    versions: tuple[str, ...] = ()
    #: A sentence on checkpoints that became no version since the last one that did, if there are any.
    withheld: tuple[str, ...] = ()
    restarts: tuple[Restart, ...] = ()
    #: What was lost and came back, and how long that took in all.
    outages: tuple[Outage, ...] = ()
    downtime: Downtime = Downtime()
    #: Those of the restarts in which the training went back to a checkpoint.
    returns: tuple[Restart, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    #: Metrics as `evaluations`, thinned out over the whole job.
    metric_curve: tuple[Evaluation, ...] = ()
    data: DataProgress = DataProgress()
    #: From the first step to the last applied file.
    train_seconds: float = 0.0
    events_total: int = 0
    unknown_events: int = 0
    #: Complete lines of the log that hold no record, and why the rest of the log is not read.
    unreadable_lines: int = 0
    cut: str = ""

    @property
    def ended(self) -> bool:
        """Nothing of it runs any more."""
        return self.state in FINAL

    @property
    def explanation(self) -> Cause | None:
        """The catalogue's entry of the cause, None for one that this version does not know."""
        return CAUSES.get(self.cause)

    @property
    def first_failure(self) -> Attempt | None:
        """The attempt that failed first as the AM saw it, else the earliest that failed."""
        if self.first_task is not None:
            wanted = (self.first_task.role, self.first_task.index, self.first_task.attempt)
            return next(
                (attempt for attempt in self.attempts if (attempt.role, attempt.index, attempt.attempt) == wanted), None
            )
        return min(
            (attempt for attempt in self.attempts if attempt.failed), key=lambda attempt: attempt.ended, default=None
        )


def apply_verdict(job: JobHistory, verdict: ev.JobFinished) -> JobHistory:
    """The job after its verdict."""
    return structs.replace(
        job, state=verdict.state, cause=verdict.cause, diagnostics=verdict.diagnostics, waiting="",
        metrics=verdict.metrics, samples=verdict.samples, step=verdict.step, seconds=verdict.seconds,
        core_hours=verdict.core_hours, memory_gb_hours=verdict.memory_gb_hours, restart_count=verdict.restarts,
        input_wait=verdict.input_wait, train_seconds=verdict.train_seconds, input_bound=verdict.input_bound,
        downtime=job.downtime.close(job.last_event),
    )  # fmt: skip

"""A job as its pages show it: the event log, folded record by record. Pure."""

from collections import deque

from msgspec import Struct, structs

from afo import event_log
from afo import events as ev
from afo.exits import CAUSES, HARMLESS, Cause
from afo.job import ROLES, Role
from afo.rpc.messages import TaskId

FINAL = ("SUCCEEDED", "FAILED", "KILLED")
#: Newest events, checkpoints, evaluations and restarts that are kept of a job.
KEPT_EVENTS = 500
KEPT_POINTS = 200
#: Characters kept of a failed task's last lines.
TAIL = 8000

AnyRecord = event_log.Record | event_log.UnknownRecord


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
    #: Bytes.
    peak_rss: int = 0

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
        """It ended, and not because its work was done."""
        return bool(self.ended) and self.cause not in HARMLESS


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A complete manifest. `seconds`: since the chief began to save, None where that is not known."""

    time: float
    seconds: float | None = None
    step: int
    generation: int
    manifest: str
    final: bool


class Evaluation(Struct, frozen=True, kw_only=True):
    """Metrics of a checkpoint."""

    time: float
    step: int
    metrics: dict[str, float]
    final: bool


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
    afo_version: str = ""
    state: str = "SUBMITTED"
    cause: str = ""
    diagnostics: str = ""
    submitted: float = 0.0
    started: float = 0.0
    seconds: float | None = None
    last_event: float = 0.0
    step: int = 0
    samples: int = 0
    samples_per_s: float | None = None
    input_wait: float | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}
    core_hours: float | None = None
    memory_gb_hours: float | None = None
    restart_count: int = 0
    first_task: TaskId | None = None
    attempts: tuple[Attempt, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    restarts: tuple[Restart, ...] = ()
    events_total: int = 0
    unknown_events: int = 0
    #: Complete lines of the log that hold no record, and whether the log was too long to be read whole.
    unreadable_lines: int = 0
    cut: bool = False

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
            return next((each for each in self.attempts if (each.role, each.index, each.attempt) == wanted), None)
        return min((each for each in self.attempts if each.failed), key=lambda each: each.ended, default=None)


class HistoryFold:
    """Takes records in their order. `before` is the job before its first event."""

    def __init__(self, before: JobHistory) -> None:
        self._job = before
        self._attempts: dict[TaskId, Attempt] = {}
        self._checkpoints: deque[Checkpoint] = deque(maxlen=KEPT_POINTS)
        self._saving_since: float | None = None
        self._evaluations: deque[Evaluation] = deque(maxlen=KEPT_POINTS)
        self._restarts: deque[Restart] = deque(maxlen=KEPT_POINTS)
        self._newest: deque[AnyRecord] = deque(maxlen=KEPT_EVENTS)

    def take(self, record: AnyRecord) -> None:
        """Add the next record."""
        self._newest.append(record)
        self._change(last_event=record.time, events_total=self._job.events_total + 1)
        if isinstance(record, event_log.UnknownRecord):
            self._change(unknown_events=self._job.unknown_events + 1)
            return
        for apply in (self._of_job, self._of_training, self._of_attempt):
            apply(record.event, record.time)

    def newest(self) -> tuple[AnyRecord, ...]:
        """The newest records, newest first."""
        return tuple(reversed(self._newest))

    def history(self) -> JobHistory:
        """The job after all records taken so far; lists other than that of attempts are newest first."""
        return structs.replace(
            self._job,
            attempts=tuple(sorted(self._attempts.values(), key=_place)),
            checkpoints=tuple(reversed(self._checkpoints)),
            evaluations=tuple(reversed(self._evaluations)),
            restarts=tuple(reversed(self._restarts)),
        )

    def _of_job(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.JobStarted():
                self._change(
                    name=event.name, user=event.user, queue=event.queue, runtime=event.runtime, started=time,
                    afo_version=event.afo_version, submitted=event.submitted, state="RUNNING",
                )  # fmt: skip
            case ev.JobEnding():
                self._change(state="ENDING", cause=event.cause, diagnostics=event.diagnostics,
                             first_task=event.first_task)  # fmt: skip
            case ev.JobFinished():
                self._job = finished(self._job, event)
            case ev.KillRequested():
                self._change(diagnostics=f"{event.user} asked for its end: {event.reason}")
            case ev.AmStarted() if event.am_attempt > 1 or event.incarnation > 1:
                what = f"Application Master, attempt {event.am_attempt}, start {event.incarnation}"
                self._restarts.append(Restart(time=time, what=what, why=f"on {event.host}"))
            case _:
                return

    def _of_training(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.Sample():
                self._change(step=event.step, samples=event.samples, samples_per_s=event.samples_per_s,
                             input_wait=event.input_wait, loss=event.loss)  # fmt: skip
            case ev.Evaluated():
                self._change(metrics=event.metrics)
                point = Evaluation(time=time, step=event.step, metrics=event.metrics, final=event.final)
                self._evaluations.append(point)
            case ev.CheckpointBegun():
                self._saving_since = time
            case ev.CheckpointWritten():
                self._checkpoints.append(
                    Checkpoint(time=time, seconds=self._saving_since and time - self._saving_since, step=event.step,
                               generation=event.generation, manifest=event.manifest, final=event.final)
                )  # fmt: skip
                self._saving_since = None
            case ev.GenerationEnded():
                whom, back = _who_goes_back(event)
                what = f"{whom}, generation {event.generation + 1}"
                self._restarts.append(Restart(time=time, what=what, why=f"{event.reason}; {back}"))
            case ev.VariablesReady() if event.kept:
                why = f"the updates of {event.lost_samples:,} samples are missing in what was restored"
                self._restarts.append(Restart(time=time, what=f"training, generation {event.generation}", why=why))
            case _:
                return

    def _of_attempt(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.ContainerRequested():
                self._attempt(event.task, requested=time, memory=event.memory, vcores=event.vcores)
                if event.task.attempt:
                    what = f"{event.task}, attempt {event.task.attempt}"
                    self._restarts.append(Restart(time=time, what=what, why=event.reason))
            case ev.WorkersScaled():
                what = f"{event.number} workers wanted in place of {event.before}"
                self._restarts.append(Restart(time=time, what=what, why=f"{event.user} scaled the job"))
            case ev.ContainerRunning():
                self._attempt(event.task, started=time, container=event.container, host=event.host)
            case ev.TaskRegistered():
                self._attempt(event.task, registered=time, container=event.container, host=event.host)
            case ev.ProcessEnded():
                self._last_words(event)
                what = f"{event.task}, process {event.number + 1} in its container"
                self._restarts.append(Restart(time=time, what=what, why=f"after {event.cause}: {event.message}"))
            case ev.TaskEnded():
                self._attempt(event.task, ended=time, peak_rss=event.usage.peak_rss)
                if event.cause != "ended_with_job" or event.task != self._job.first_task:
                    self._last_words(event)
            case ev.ContainerEnded() if not self._known(event.task).ended:
                self._attempt(event.task, ended=time, code=event.exit_code, message=event.diagnostics)
            case _:
                return

    def _last_words(self, event: ev.TaskEnded | ev.ProcessEnded) -> None:
        self._attempt(
            event.task, cause=event.cause, code=event.code, message=event.message, tail=event.tail[-TAIL:]
        )  # fmt: skip

    def _known(self, task: TaskId) -> Attempt:
        return self._attempts.get(task) or Attempt(role=task.role, index=task.index, attempt=task.attempt)

    def _attempt(self, task: TaskId, **fields: object) -> None:
        self._attempts[task] = structs.replace(self._known(task), **fields)

    def _change(self, **fields: object) -> None:
        self._job = structs.replace(self._job, **fields)


def finished(job: JobHistory, verdict: ev.JobFinished) -> JobHistory:
    """The job after its verdict."""
    return structs.replace(
        job, state=verdict.state, cause=verdict.cause, diagnostics=verdict.diagnostics, metrics=verdict.metrics,
        samples=verdict.samples, step=verdict.step, seconds=verdict.seconds, core_hours=verdict.core_hours,
        memory_gb_hours=verdict.memory_gb_hours, restart_count=verdict.restarts, input_wait=verdict.input_wait,
    )  # fmt: skip


def _place(attempt: Attempt) -> tuple[int, int, int]:
    return ROLES.index(attempt.role), attempt.index, attempt.attempt


def _who_goes_back(event: ev.GenerationEnded) -> tuple[str, str]:
    """What starts anew when a generation ends, and from where."""
    back = f"back to {event.manifest}" if event.manifest else "back to the beginning"
    if not event.kept:
        return "all servers and workers", back
    return "the lost servers and all workers", f"{len(event.kept)} servers keep what they hold, the rest goes {back}"

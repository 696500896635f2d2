"""A job as the client shows it, from the Application Master's answer or from the event log. Pure."""

from collections.abc import Iterable

from msgspec import Struct, structs

from afo.events import event_log
from afo.events import types as ev
from afo.events.accounting import Book
from afo.events.job_costs import Costs, JobCosts
from afo.events.master_starts import MasterStarts
from afo.events.model_notes import Notes
from afo.failures.causes import NO_RESTART, SCALED_AWAY
from afo.protocol.input_wait import InputBound
from afo.protocol.train_task import Progress
from afo.rpc.messages import MasterStart, StatusReply, TaskId, TaskStatus
from afo_client.terminal.ratio import ratio

FINAL = ("SUCCEEDED", "FAILED", "KILLED")
#: States of a task that has a container or waits for one.
RUNNING = ("requested", "allocated", "registered", "leaving")
#: States of a worker that the job does not want any more.
NOT_WANTED = ("leaving", "scaled away")


class TaskView(Struct, frozen=True, kw_only=True):
    """One task; bytes and seconds; counters are of its present process, `samples_per_s` is over its life."""

    task: TaskId
    state: str = "requested"
    container: str = ""
    host: str = ""
    log_url: str = ""
    phase: str = ""
    step: int = 0
    samples_per_s: float = 0.0
    rss: int = 0
    peak_rss: int = 0
    cpu_s: float = 0.0
    samples: int = 0
    input_wait_s: float = 0.0
    step_s: float = 0.0
    loss: float | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """The end of the failed task."""

    task: TaskId
    cause: str
    message: str
    tail: str
    log_url: str = ""
    host: str = ""


class JobView(Struct, frozen=True, kw_only=True):
    """A job at one moment. `input_wait` is a share; `verdict` is there once the job has ended."""

    job_id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = "SUBMITTED"
    message: str = ""
    submitted: float = 0.0
    tasks: tuple[TaskView, ...] = ()
    step: int = 0
    samples: int = 0
    samples_per_s: float = 0.0
    input_wait: float = 0.0
    input_bound: InputBound | None = None
    loss: float | None = None
    #: The newest that was told (`afo.events.types.Sample`); None where none was.
    staleness: float | None = None
    metrics: dict[str, float] = {}
    #: Share of the job's steps that are made, and the seconds until the last.
    progress: float | None = None
    seconds_left: float | None = None
    splits_done: int = 0
    splits_total: int = 0
    generation: int = 1
    #: Steps of the earlier model that the training began with; `step` counts on from there.
    warm_steps: int = 0
    #: Attempts after an end, and processes started anew in place; a request that is only made again is none.
    restarts: int = 0
    #: What a person should know of how the model came about (`afo.events.model_notes`).
    notes: tuple[str, ...] = ()
    #: The last time that its Application Master was lost.
    master: MasterStart | None = None
    #: So far, by the event log.
    costs: Costs = Costs()
    verdict: ev.JobFinished | None = None
    failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """No task will run any more."""
        return self.state in FINAL

    @property
    def cause(self) -> str:
        """A name of `afo.failures.causes`, also where the Application Master wrote no verdict; '' while it runs."""
        if self.verdict:
            return self.verdict.cause
        return {"KILLED": "killed_by_user", "FAILED": "master_lost"}.get(self.state, "")

    @property
    def containers(self) -> tuple[int, int]:
        """Tasks that run or are done, and all that are wanted."""
        wanted = [task for task in self.tasks if task.state not in NOT_WANTED]
        return sum(task.state in ("allocated", "registered", "succeeded") for task in wanted), len(wanted)


def from_status(reply: StatusReply) -> JobView:
    """The AM's answer."""
    return JobView(
        job_id=reply.job_id,
        name=reply.name,
        state=reply.state if reply.state not in FINAL else "ENDING",  # it ended once the verdict is written
        message=reply.message,
        submitted=reply.started,
        tasks=tuple(_task_view(task) for task in reply.tasks),
        step=reply.step,
        samples=reply.samples,
        samples_per_s=reply.samples_per_s,
        input_wait=reply.input_wait,
        input_bound=reply.input_bound,
        loss=reply.loss,
        staleness=reply.staleness,
        metrics=reply.metrics,
        progress=reply.progress,
        seconds_left=reply.seconds_left,
        splits_done=reply.splits_done,
        splits_total=reply.splits_total,
        notes=reply.notes,
        master=reply.master,
        generation=reply.generation,
        restarts=reply.restarts,
    )


def _task_view(status: TaskStatus) -> TaskView:
    view = TaskView(
        task=status.task,
        state=status.state,
        container=status.container,
        host=status.host,
        log_url=status.log_url,
        rss=status.usage.rss,
        peak_rss=status.usage.peak_rss,
        cpu_s=status.usage.cpu_s,
    )
    return structs.replace(view, **_progress_fields(status.progress))


def _progress_fields(progress: Progress | None) -> dict[str, object]:
    """What a `TaskView` shows of a task's counters."""
    if progress is None:
        return {}
    rate = ratio(progress.samples, progress.step_s)
    return {
        "phase": progress.phase, "step": progress.step, "samples_per_s": rate, "samples": progress.samples,
        "input_wait_s": progress.input_wait.total, "step_s": progress.step_s, "loss": progress.loss,
    }  # fmt: skip


class ViewFold:
    """Folds the event log, record by record, into a view."""

    def __init__(self, job_id: str) -> None:
        self._view = JobView(job_id=job_id)
        self._tasks: dict[tuple[str, int], TaskView] = {}
        self._failures: dict[TaskId, Failure] = {}
        self._first: TaskId | None = None
        self._masters = MasterStarts()
        self._notes = Notes()
        self._book = Book()
        self._costs = JobCosts()

    def take(self, records: Iterable[event_log.Record | event_log.UnknownRecord]) -> None:
        """Add records in their order."""
        for record in records:
            if isinstance(record, event_log.Record):
                self._masters.take(record.event, record.time)
                self._notes.take(record.event)
                self._book.take(record.event)
                self._costs.take(record.event, record.time)
                self._apply(record.event)

    @property
    def view(self) -> JobView:
        """The job after all records taken so far."""
        first = self._failures.get(self._first) if self._first else None
        account = self._book.account
        return structs.replace(self._view, tasks=tuple(self._tasks.values()), failure=first, master=self._masters.last,
                               notes=self._notes.sentences,
                               splits_done=len(account.acknowledged), costs=self._costs.costs,
                               splits_total=len(account.splits) * account.epochs)  # fmt: skip

    def _apply(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.JobStarted():
                self._change(name=event.name, user=event.user, queue=event.queue, submitted=event.submitted,
                             state="RUNNING")  # fmt: skip
            case ev.Sample():
                self._change(step=event.step, samples=event.samples, samples_per_s=event.samples_per_s,
                             input_wait=event.input_wait, loss=event.loss, progress=event.progress,
                             seconds_left=event.seconds_left)  # fmt: skip
                if event.staleness is not None:  # it is told while workers train
                    self._change(staleness=event.staleness)
            case ev.WarmStarted() if event.source:
                self._change(warm_steps=event.step)
            case ev.Evaluated():
                self._change(metrics=event.metrics)
            case ev.ExportDecided() if event.metrics:
                self._change(metrics=event.metrics)
            case ev.GenerationEnded():
                self._change(generation=event.generation + 1)
            case ev.JobEnding():
                self._first = event.first_task
                self._change(state="ENDING", message=event.diagnostics)
            case ev.JobFinished():
                self._change(state=event.state, message=event.diagnostics, verdict=event, metrics=event.metrics,
                             step=event.step, samples=event.samples, samples_per_s=0.0)  # fmt: skip
            case _:
                self._apply_to_task(event)

    def _apply_to_task(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.ContainerRequested():
                self._change(restarts=self._view.restarts + self._comes_again(event.task))
                self._tasks[event.task.role, event.task.index] = TaskView(task=event.task)
            case ev.ContainerRunning():
                self._change_task(event.task, state="allocated", container=event.container, host=event.host)
            case ev.TaskRegistered():
                self._change_task(event.task, state="registered", container=event.container, host=event.host,
                                  log_url=event.log_url)  # fmt: skip
            case ev.ProcessEnded():
                self._change(restarts=self._view.restarts + 1)
                self._note_failure(event)
            case ev.TaskGivenUp():
                self._change_task(event.task, state="given up")
            case ev.TaskEnded():
                self._task_ended(event)
            case _:
                return

    def _comes_again(self, task: TaskId) -> bool:
        before = self._failures.get(structs.replace(task, attempt=task.attempt - 1))
        return task.attempt > 0 and (before is None or before.cause not in NO_RESTART)

    def _task_ended(self, event: ev.TaskEnded) -> None:
        state = {"succeeded": "succeeded", SCALED_AWAY: "scaled away"}.get(event.cause, "ended")
        counters = _progress_fields(event.progress)
        self._change_task(event.task, state=state, rss=event.usage.peak_rss, **counters)
        # A process may have failed before its container ended with the job.
        if state != "succeeded" and not (event.cause == "ended_with_job" and event.task in self._failures):
            self._note_failure(event)

    def _note_failure(self, event: ev.TaskEnded | ev.ProcessEnded) -> None:
        held = self._tasks.get((event.task.role, event.task.index))
        self._failures[event.task] = Failure(
            task=event.task, cause=event.cause, message=event.message, tail=event.tail,
            log_url=held.log_url if held else "", host=held.host if held else "",
        )  # fmt: skip

    def _change(self, **fields: object) -> None:
        self._view = structs.replace(self._view, **fields)

    def _change_task(self, task: TaskId, **fields: object) -> None:
        key = (task.role, task.index)
        self._tasks[key] = structs.replace(self._tasks.get(key, TaskView(task=task)), task=task, **fields)

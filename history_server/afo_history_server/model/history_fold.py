"""The event log, folded record by record into what the pages show. Pure."""

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice

from msgspec import structs

from afo.events import types as ev
from afo.events.downtime_fold import DowntimeFold
from afo.events.event_log import UnknownRecord
from afo.events.job_costs import JobCosts
from afo.events.master_starts import MasterStarts
from afo.events.model_notes import ExportedVersions, WithheldVersions
from afo.failures.causes import APPLICATION_ATTEMPT_LOST, NO_RESTART
from afo.job import ROLES
from afo.rpc.messages import ServerPart, TaskId
from afo_history_server.model.data_fold import DataFold
from afo_history_server.model.downsample import Downsampled
from afo_history_server.model.job_history import (
    AnyRecord,
    Attempt,
    Beginning,
    Checkpoint,
    CurvePoint,
    Evaluation,
    Export,
    FileProgress,
    JobHistory,
    Profile,
    Restart,
    UsePoint,
    apply_verdict,
)
from afo_history_server.model.newest_events import NewestEvents, encode
from afo_history_server.model.text import truncate
from afo_history_server.model.wait_fold import WaitFold

#: Attempts of a job that are told of, and those of them whose use is drawn and whose last lines are kept.
MAX_ATTEMPTS, KEPT_USES, KEPT_TAILS = 10_000, 2000, 300
#: Newest checkpoints, evaluations and restarts that are kept of a job; process restarts of an attempt.
KEPT_POINTS = 200
KEPT_IN_PLACE = 50
KEPT_PROFILES = 50
#: Of each evaluation.
KEPT_METRICS = 256
#: Of each checkpoint.
KEPT_SERVERS = 20
#: Points of a curve.
CURVE_POINTS = 400
#: Points of what one attempt used.
USE_POINTS = 60
#: Characters kept of a failed task's last lines, and of any other text of an event.
TAIL = MOST_TEXT = 8000

#: Causes after which another attempt is no restart, or is told with that of the Application Master.
_TOLD_ELSEWHERE = NO_RESTART | {APPLICATION_ATTEMPT_LOST}
#: Prometheus calls what stands there, so it is a host, which nothing can turn into a path or a query, and a port.
_ADDRESS = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{4,5})")
#: The Application Master has one that the kernel hands out; those of a system's own services lie below.
_PORTS = range(1024, 1 << 16)


class HistoryFold:
    """Takes records in their order. `before` is the job before its first event."""

    def __init__(self, before: JobHistory) -> None:
        self._job = before
        #: As of the last record, None until somebody asks.
        self._history: JobHistory | None = None
        self._admitted: set[TaskId] = set()
        self._attempts: dict[TaskId, Attempt] = {}
        self._checkpoints: deque[Checkpoint] = deque(maxlen=KEPT_POINTS)
        self._saving_since: float | None = None
        self._evaluations: deque[Evaluation] = deque(maxlen=KEPT_POINTS)
        self._restarts: deque[Restart] = deque(maxlen=KEPT_POINTS)
        self._returns: deque[Restart] = deque(maxlen=KEPT_POINTS)
        self._curve: Downsampled[CurvePoint] = Downsampled(CURVE_POINTS)
        self._metric_curve: Downsampled[Evaluation] = Downsampled(CURVE_POINTS)
        self._use: dict[TaskId, Downsampled[UsePoint]] = {}
        self._used_at: dict[TaskId, float] = {}
        #: Attempts that have last lines, in their order.
        self._with_tail: dict[TaskId, None] = {}
        self._masters = MasterStarts()
        self._newest = NewestEvents()
        #: Orders to take one that are not done.
        self._profiles_wanted: dict[int, TaskId] = {}
        self._data = DataFold()
        self._wait = WaitFold(before.runtime)
        self._downtime = DowntimeFold()
        self._costs = JobCosts()
        self._versions, self._withheld = ExportedVersions(), WithheldVersions()

    def take(self, record: AnyRecord) -> None:
        """Add the next record."""
        text = encode(record)
        self._newest.add(record, text)
        self._history = None
        self._change(last_event=record.time, events_total=self._job.events_total + 1)
        if isinstance(record, UnknownRecord):
            self._change(unknown_events=self._job.unknown_events + 1)
            self._downtime.take(record)
            return
        if len(text) > MOST_TEXT:
            record = structs.replace(record, event=_cut(record.event))
        for apply in (self._of_job, self._of_master, self._of_training, self._of_model, self._data.take):
            apply(record.event, record.time)
        if self._admits(record.event):
            self._of_attempt(record.event, record.time)
            self._downtime.take(record)
            self._wait.take(record.event)
            self._costs.take(record.event, record.time)

    def files(self) -> tuple[Sequence[str], dict[int, FileProgress]]:
        """What the first splits are called, by their number; split → the newest pass over it."""
        return self._data.names(), self._data.files()

    def newest(self) -> tuple[AnyRecord, ...]:
        """The newest records, newest first."""
        return self._newest.records()

    def history(self) -> JobHistory:
        """The job after all records taken so far; lists other than that of attempts are newest first."""
        if self._history is None:
            self._history = self._make_history()
        return self._history

    def _make_history(self) -> JobHistory:
        return structs.replace(
            self._job,
            waiting="" if self._job.ended else self._wait.sentence(),
            attempts=tuple(sorted(self._attempts.values(), key=_place)),
            checkpoints=tuple(reversed(self._checkpoints)),
            evaluations=tuple(reversed(self._evaluations)),
            restarts=tuple(reversed(self._restarts)),
            returns=tuple(reversed(self._returns)),
            outages=tuple(reversed(self._downtime.outages())),
            downtime=self._downtime.of_ended() if self._job.ended else self._downtime.downtime(),
            curve=self._curve.items(),
            metric_curve=self._metric_curve.items(),
            data=self._data.progress(),
            costs=self._costs.costs,
        )

    def _admits(self, event: ev.AnyEvent) -> bool:
        """Whether attempts are told of what this event says of one; those beyond the first are only counted."""
        task = getattr(event, "task", None)
        if task is None or task in self._admitted:
            return True
        if len(self._admitted) < MAX_ATTEMPTS:
            self._admitted.add(task)
            return True
        if isinstance(event, ev.ContainerRequested):
            self._change(attempts_left_out=self._job.attempts_left_out + 1)
        return False

    def _of_job(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.JobStarted():
                self._change(
                    name=event.name, user=self._job.user or event.user, queue=event.queue, runtime=event.runtime,
                    started=time, afo_version=event.afo_version, submitted=event.submitted, state="STARTING",
                )  # fmt: skip
            case ev.GenerationStarted() | ev.Sample() if self._job.state == "STARTING":
                self._change(state="RUNNING")
            case ev.JobEnding():
                self._change(state="ENDING", cause=event.cause, diagnostics=event.diagnostics,
                             first_task=event.first_task)  # fmt: skip
            case ev.JobFinished():
                self._job = apply_verdict(self._job, event)
            case ev.KillRequested():
                self._change(diagnostics=f"{event.user} requested its end: {event.reason}")
            case ev.AmStarted():
                self._change(metrics_address=_metrics_address(event.metrics))
            case _:
                return

    def _of_master(self, event: ev.AnyEvent, time: float) -> None:
        again = self._masters.take(event, time)
        if again is not None and isinstance(event, ev.AmStarted):
            what = f"Application Master, attempt {event.am_attempt}, start {event.incarnation}"
            tasks = f"; tasks that ended with the one before: {again.tasks}" if again.tasks else ""
            end = f"; the one before: {again.why}" if again.why else ""
            self._restarts.append(_restart(time, what, f"on {event.host}{tasks}{end}"))

    def _of_training(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.Sample():
                self._change(step=event.step, samples=event.samples, samples_per_s=event.samples_per_s,
                             input_wait=event.input_wait, loss=event.loss, progress=event.progress,
                             seconds_left=event.seconds_left)  # fmt: skip
                self._curve.add(
                    CurvePoint(time=time, step=event.step, samples_per_s=event.samples_per_s,
                               input_wait=event.input_wait, loss=event.loss, staleness=event.staleness)
                )  # fmt: skip
            case ev.Evaluated():
                metrics = dict(islice(event.metrics.items(), KEPT_METRICS))
                self._change(metrics=metrics, not_evaluated=self._job.not_evaluated + event.passed_over)
                point = Evaluation(time=time, step=event.step, metrics=metrics, final=event.final)
                self._evaluations.append(point)
                self._metric_curve.add(point)
            case ev.CheckpointBegun():
                self._saving_since = time
            case ev.CheckpointWritten():
                self._checkpoints.append(
                    Checkpoint(time=time, seconds=self._saving_since and time - self._saving_since, step=event.step,
                               generation=event.generation, manifest=event.manifest, final=event.final,
                               hash_tables=event.hash_tables, servers=_slowest(event.servers))
                )  # fmt: skip
                self._saving_since = None
                self._change(step=event.step)
            case ev.GenerationEnded():
                whom, back = _who_goes_back(event)
                what = f"{whom}, generation {event.generation + 1}"
                self._returns.append(_restart(time, what, f"{event.reason}; {back}"))
                self._restarts.append(self._returns[-1])
            case ev.VariablesReady() if event.kept or event.passed_over:
                why = "; ".join((*_missing(event), *(f"passed over: {manifest}" for manifest in event.passed_over)))
                self._restarts.append(_restart(time, f"training, generation {event.generation}", why))
            case _:
                return

    def _of_model(self, event: ev.AnyEvent, time: float) -> None:
        """What the model began with, what became of it, and what was profiled."""
        match event:
            case ev.WarmStarted():
                self._change(
                    beginning=Beginning(source=event.source, step=event.step, kept=event.kept,
                                        made_new=event.made_new, dropped=event.dropped, passed_over=event.passed_over)
                )  # fmt: skip
            case ev.VersionExported() | ev.VersionWithheld():
                self._versions.take(event)
                self._withheld.take(event)
                self._change(versions=self._versions.sentences, withheld=self._withheld.sentences)
            case ev.ExportDecided():
                self._withheld.take(event)
                self._change(
                    withheld=self._withheld.sentences,
                    export=Export(time=time, manifest=event.manifest, step=event.step, allowed=event.allowed,
                                  metrics=event.metrics, checks=event.checks),
                    metrics=event.metrics or self._job.metrics,
                )  # fmt: skip
            case ev.OrderGiven() if event.kind == "profile":
                self._profiles_wanted[event.order] = event.task
                if len(self._profiles_wanted) > KEPT_PROFILES:
                    del self._profiles_wanted[next(iter(self._profiles_wanted))]
            case ev.OrderDone() if task := self._profiles_wanted.pop(event.order, None):
                name = "" if event.failed else f"profile-{task.role}_{task.index}-{event.order}"
                profile = Profile(time=time, task=f"{task.role}:{task.index}", name=name, problem=event.problem)
                self._change(profiles=(profile, *self._job.profiles)[:KEPT_PROFILES])
            case _:
                return

    def _of_attempt(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.ContainerRequested():
                self._attempt(event.task, requested=time, memory=event.memory, vcores=event.vcores)
                self._change(restart_count=self._job.restart_count + self._follows(event.task, NO_RESTART))
                if self._follows(event.task, _TOLD_ELSEWHERE):
                    what = f"{event.task}, attempt {event.task.attempt}"
                    self._restarts.append(_restart(time, what, event.reason))
            case ev.WorkersScaled():
                what = f"{event.number} workers wanted in place of {event.before}"
                self._restarts.append(_restart(time, what, f"{event.user} scaled the job"))
            case ev.ContainerRunning():
                self._attempt(event.task, started=time, container=event.container, host=event.host)
            case ev.TaskRegistered():
                self._attempt(event.task, registered=time, container=event.container, host=event.host)
            case ev.ProcessEnded():
                self._change(restart_count=self._job.restart_count + 1)
                self._last_words(event)
                earlier = self._get_attempt(event.task).restarted[1 - KEPT_IN_PLACE :]
                self._attempt(event.task, restarted=(*earlier, time))
                what = f"{event.task}, process {event.number + 1} in its container"
                self._restarts.append(_restart(time, what, f"after {event.cause}: {event.message}"))
            case ev.TasksUsed():
                for use in event.tasks:
                    self._add_use(use, time)
            case ev.TaskEnded():
                self._attempt(event.task, ended=time, peak_rss=event.usage.peak_rss, cpu_s=event.usage.cpu_s)
                if event.cause != "ended_with_job" or event.task != self._job.first_task:
                    self._last_words(event)
            case ev.ContainerEnded() if not self._get_attempt(event.task).ended:
                self._attempt(event.task, ended=time, code=event.exit_code, message=event.diagnostics)
            case _:
                return

    def _add_use(self, use: ev.TaskUse, time: float) -> None:
        if use.task not in self._attempts:
            return
        before, since = self._get_attempt(use.task), self._used_at.get(use.task)
        cores = None
        if since is not None and time > since and use.cpu_s >= before.cpu_s:
            cores = (use.cpu_s - before.cpu_s) / (time - since)
        self._used_at[use.task] = time
        self._attempt(use.task, peak_rss=use.peak_rss, cpu_s=use.cpu_s)
        if use.task in self._use or len(self._use) < KEPT_USES:
            series = self._use.setdefault(use.task, Downsampled(USE_POINTS))
            series.add(UsePoint(time=time, rss=use.rss, cores=cores))
            self._attempt(use.task, use=series.items())

    def _last_words(self, event: ev.TaskEnded | ev.ProcessEnded) -> None:
        self._attempt(
            event.task, cause=event.cause, code=event.code, message=event.message, tail=event.tail[-TAIL:]
        )  # fmt: skip
        self._with_tail.pop(event.task, None)
        if event.tail:
            self._with_tail[event.task] = None
        if len(self._with_tail) > KEPT_TAILS:
            # The first one may tell why the job failed.
            oldest = next(islice(self._with_tail, 1, None))
            del self._with_tail[oldest]
            self._attempt(oldest, tail="")

    def _follows(self, task: TaskId, others: frozenset[str]) -> bool:
        """Whether the attempt follows another one that ended with none of these causes."""
        before = self._attempts.get(structs.replace(task, attempt=task.attempt - 1))
        return task.attempt > 0 and (before is None or before.cause not in others)

    def _get_attempt(self, task: TaskId) -> Attempt:
        return self._attempts.get(task) or Attempt(role=task.role, index=task.index, attempt=task.attempt)

    def _attempt(self, task: TaskId, **fields: object) -> None:
        self._attempts[task] = structs.replace(self._get_attempt(task), **fields)

    def _change(self, **fields: object) -> None:
        self._job = structs.replace(self._job, **fields)


def _place(attempt: Attempt) -> tuple[int, int, int]:
    return ROLES.index(attempt.role), attempt.index, attempt.attempt


def _cut(event: ev.AnyEvent) -> ev.AnyEvent:
    """The event with its texts bounded."""
    texts = {name: text for name in event.__struct_fields__ if isinstance(text := getattr(event, name), str)}
    return structs.replace(
        event, **{name: text[-TAIL:] if name == "tail" else truncate(text, MOST_TEXT) for name, text in texts.items()}
    )


def _restart(time: float, what: str, why: str) -> Restart:
    return Restart(time=time, what=what, why=truncate(why, MOST_TEXT))


def _metrics_address(text: str) -> str:
    """The `host:port` that a job names; '' for any other text."""
    found = _ADDRESS.fullmatch(text)
    return text if found and int(found[1]) in _PORTS else ""


def _missing(event: ev.VariablesReady) -> tuple[str, ...]:
    if not event.kept:
        return ()
    return (f"the updates of {event.lost_samples:,} samples are missing in what was restored",)


def _slowest(servers: tuple[ServerPart, ...]) -> tuple[ServerPart, ...]:
    return tuple(sorted(servers, key=lambda part: -part.seconds)[:KEPT_SERVERS])


def _who_goes_back(event: ev.GenerationEnded) -> tuple[str, str]:
    """What starts anew when a generation ends, and from where."""
    back = f"back to {event.manifest}" if event.manifest else "back to the beginning"
    if not event.kept:
        return "all servers and workers", back
    return "the lost servers and all workers", f"{len(event.kept)} servers keep what they hold, the rest goes {back}"

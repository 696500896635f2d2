"""Explanation of where a job stands: its cause, the task that failed first, and every end so far. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from afo.events import event_log
from afo.events import types as ev
from afo.events.downtime import Downtime, Outage
from afo.events.downtime_fold import DowntimeFold
from afo.events.master_starts import MasterStarts
from afo.failures.causes import CAUSES, HARMLESS, MAX_FREE_RESTARTS, NEEDS_REPAIR, Cause
from afo.job import RestartBudget, Role
from afo.rpc.messages import MasterStart, TaskId
from afo_client.jobs.view import JobView


class TaskEnd(Struct, frozen=True, kw_only=True):
    """An attempt of a task that ended before its work was done; `time` in seconds since 1970."""

    task: str
    attempt: int
    cause: str
    message: str
    #: Where it ran, '' where no container had come.
    host: str = ""
    tail: str = ""
    code: int | None = None
    time: float = 0.0


class Explanation(Struct, frozen=True, kw_only=True):
    """`cause` is a name of `afo.failures.causes.CAUSES`, '' for a job that runs."""

    job_id: str
    state: str
    cause: str
    diagnostics: str
    #: The end that decided (`decided`), or else the last one there was.
    evidence: TaskEnd | None
    decided: bool
    ends: tuple[TaskEnd, ...]
    #: Each time that its Application Master was lost.
    masters: tuple[MasterStart, ...] = ()
    #: What was lost and came back, the newest, and how long that took in all.
    outages: tuple[Outage, ...] = ()
    downtime: Downtime = Downtime()
    #: What a person should know of how the model came about (`afo.events.model_notes`).
    notes: tuple[str, ...] = ()


def explain(view: JobView, records: Iterable[event_log.Record | event_log.UnknownRecord]) -> Explanation:
    """What the event log says of the job that `view` shows."""
    ends: list[TaskEnd] = []
    masters, lost = MasterStarts(), []
    hosts, first, downtime = TaskHosts(), None, DowntimeFold()
    for record in records:
        hosts.take(record)
        downtime.take(record)
        if isinstance(record, event_log.Record) and (again := masters.take(record.event, record.time)):
            lost.append(again)
        match record:
            case event_log.Record(event=(ev.TaskEnded() | ev.ProcessEnded()) as event) if event.cause not in HARMLESS:
                ends.append(_end(event, hosts.of(event.task), record.time))
            case event_log.Record(event=ev.JobEnding(first_task=task)) if task is not None:
                first = (str(task), task.attempt)
    decisive = [end for end in ends if (end.task, end.attempt) == first]
    faults = [end for end in ends if end.cause != "killed_by_user" and view.state != "SUCCEEDED"]
    evidence = decisive[-1] if decisive else faults[-1] if faults else None
    return Explanation(
        job_id=view.job_id, state=view.state, cause=view.cause, diagnostics=view.message, evidence=evidence,
        decided=bool(decisive), ends=tuple(ends), masters=tuple(lost), notes=view.notes, outages=downtime.outages(),
        downtime=downtime.of_ended() if view.ended else downtime.downtime(),
    )  # fmt: skip


def _end(event: ev.TaskEnded | ev.ProcessEnded, host: str, time: float) -> TaskEnd:
    return TaskEnd(
        task=str(event.task), attempt=event.task.attempt, cause=event.cause, message=event.message, host=host,
        tail=event.tail, code=event.code, time=time,
    )  # fmt: skip


def budget_text(cause: Cause, role: Role | None = None, budget: RestartBudget | None = None) -> str:
    """What another attempt costs, for a task of `role` with its budget of the job file if one is known."""
    if not cause.retried:
        return "not retried" if cause.blame == "nobody" else "not retried: it would fail again, so the job fails"
    if cause.blame != "user":
        bound = f"retried; uses no budget, {MAX_FREE_RESTARTS} times for a task at most"
        return f"{bound}, and for `timeouts.repair` without progress" if cause.name in NEEDS_REPAIR else bound
    known = budget or RestartBudget(max=5)
    bound = f"{known.max} in {known.per}" + ("" if budget else " unless the job file says otherwise")
    return f"retried; uses the budget `restart.{role or '<role>'}`: {bound}"


def cause_fields(cause: Cause) -> dict[str, object]:
    """The object of `afo explain CAUSE --json`."""
    return {
        "cause": cause.name, "blame": cause.blame, "retried": cause.retried, "budget": budget_text(cause),
        "summary": cause.summary, "advice": cause.advice,
    }  # fmt: skip


def known_cause(name: str) -> Cause | None:
    """The cause of this name, None for one of another version of afo."""
    return CAUSES.get(name)


class TaskHosts:
    """Hosts of the attempts of tasks. Takes the records of a log in their order."""

    def __init__(self) -> None:
        self._hosts: dict[TaskId, str] = {}

    def take(self, record: event_log.Record | event_log.UnknownRecord) -> None:
        """Note the host, if the record names one."""
        match record:
            case event_log.Record(event=(ev.ContainerRunning() | ev.TaskRegistered()) as event):
                self._hosts[event.task] = event.host

    def of(self, task: TaskId) -> str:
        """The host of an attempt; '' if it has had no container yet."""
        return self._hosts.get(task, "")

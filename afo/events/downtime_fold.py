"""Restarts of a job out of its event log: what was lost, why, and how long it was away. Pure.

A task is away from its loss until its next process is at work (`TaskAtWork`); a parameter server and an Application
Master that took its tasks along, until a worker makes the first step with what was restored. The training stands still
while no chief or worker is at work, after one was lost. Logs before version 3 do not tell, and nothing is guessed.
"""

from msgspec import structs

from afo.events import types as ev
from afo.events.downtime import Downtime, Outage, Redone
from afo.events.event_log import TELLS_WORK, Record, UnknownRecord
from afo.failures.causes import APPLICATION_ATTEMPT_LOST, HARMLESS, NO_RESTART
from afo.job import Role
from afo.rpc.messages import TaskId

#: Rows that are kept, the newest.
KEPT = 200
MASTER = "Application Master"
#: Why a task that had done its work begins again.
GENERATION_LOST = "generation_lost"

_Key = tuple[Role, int]
#: What a worker's first step shows to be at work again.
_SERVED = ("ps:", MASTER)


class DowntimeFold:
    """Takes records in their order."""

    def __init__(self) -> None:
        self._sum = Downtime()
        #: By number, oldest first; those that are not `over` are open. The newest one of each task.
        self._rows: dict[int, Outage] = {}
        self._of: dict[_Key, int] = {}
        #: Rows of parameter servers up to this number wait for a worker's first step alone: what they held is restored.
        self._restored = 0
        self._hosts: dict[_Key, str] = {}
        self._last_cause: dict[_Key, str] = {}
        self._at_work: set[_Key] = set()
        self._start, self._last, self._heard = (0, 0), 0.0, 0.0
        self._master_host, self._with_master = "", 0
        self._ready = False
        #: When somebody was last seen to begin work, and since then the last of them was lost.
        self._moved = self._left = 0.0
        #: The first return to a checkpoint that is not prepared yet, and the row that it belongs to.
        self._back: ev.GenerationEnded | None = None
        self._back_row = 0
        self._newest = 0

    def take(self, record: Record | UnknownRecord) -> None:
        """Add the next record."""
        start = (record.am_attempt, record.incarnation)
        if start != self._start:
            self._start, self._heard = start, self._last
        self._last = record.time
        if isinstance(record, UnknownRecord):
            return
        if record.v < TELLS_WORK and self._sum.known:
            self._sum = structs.replace(self._sum, still_s=None, task_s=None)
        for apply in (self._of_job, self._of_container, self._of_end, self._of_generation):
            apply(record.event, record.time)

    def outages(self) -> tuple[Outage, ...]:
        """The newest `KEPT`, oldest first."""
        return tuple(self._rows.values())

    def downtime(self) -> Downtime:
        """All of them together."""
        return self._sum

    def of_ended(self) -> Downtime:
        """The same for a job that has ended, be it without a word."""
        return self._sum.close(self._last)

    def _of_job(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.JobStarted():
                self._sum = structs.replace(self._sum, began=time)
            case ev.AmStarted():
                if event.am_attempt > 1 or event.incarnation > 1:
                    self._master_again(event, time)
                self._master_host, self._with_master = event.host, 0
            case ev.JobEnding():
                self._end(event, time)
            case ev.JobFinished():
                self._sum = structs.replace(self._sum, ended=time)
            case _:
                return

    def _master_again(self, event: ev.AmStarted, time: float) -> None:
        alone = not self._with_master
        cause = event.waited_for or ("" if alone else APPLICATION_ATTEMPT_LOST)
        number = self._add(
            Outage(
                what=MASTER, attempt=event.am_attempt - (not alone), lost=self._heard or time,
                cause=cause, host=self._master_host, started=time,
                now_on=event.host, tasks=self._with_master, in_place=alone,
            )
        )  # fmt: skip
        if alone:
            self._close(number, time, trained=True)
        elif self._back is not None and not self._back_row:
            self._back_row = number

    def _end(self, event: ev.JobEnding, time: float) -> None:
        """What the verdict tells is no restart; nothing else comes back."""
        decided = self._of.get(_key(event.first_task), 0) if event.first_task else 0
        if decided in self._rows and not self._rows[decided].over:
            self._sum = structs.replace(self._sum, restarts=self._sum.restarts - 1)
            del self._rows[decided]
        for number in tuple(self._rows):
            self._close(number, time, trained=False)
        self._at_work.clear()
        self._moves(time)

    def _of_container(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.ContainerRequested(task=task):
                if task.attempt and self._last_cause.get(_key(task)) == "succeeded":
                    self._lose(task, GENERATION_LOST, event.reason, time)
                self._last_cause.pop(_key(task), None)
                before = self._rows.get(self._of.get(_key(task), 0))
                asked = before.requested if before else 0.0  # it may be asked again for what did not come
                self._update(task, requested=asked or time, started=0.0, registered=0.0)
            case ev.ContainerRunning():
                self._hosts[_key(event.task)] = event.host
                self._update(event.task, started=time, now_on=event.host)
            case ev.TaskRegistered():
                self._hosts[_key(event.task)] = event.host
                self._update(event.task, registered=time, now_on=event.host)
            case ev.TaskAtWork():
                self._works(event.task, time)
            case _:
                return

    def _of_end(self, event: ev.AnyEvent, time: float) -> None:
        if not isinstance(event, ev.TaskEnded | ev.ProcessEnded):
            return
        key = _key(event.task)
        self._last_cause[key] = event.cause
        stood = not self._at_work
        self._at_work.discard(key)
        since = time
        if event.cause == APPLICATION_ATTEMPT_LOST:
            self._with_master += 1
            self._back_row, since = 0, self._heard or time
        elif event.cause in HARMLESS:
            self._end_row(key, time, trained=False)
            return
        elif event.cause not in NO_RESTART:
            since = max(0.0, time - max(0.0, event.idle_s))  # the log may claim anything
            self._lose(event.task, event.cause, event.message, since, noticed=time * (since != time),
                       in_place=isinstance(event, ev.ProcessEnded))  # fmt: skip
        if key[0] in ("chief", "worker"):
            self._left = max(self._left, since)
        if not stood:
            self._stands(self._left or since)

    def _lose(
        self, task: TaskId, cause: str, message: str, time: float, *, noticed: float = 0.0, in_place: bool = False
    ) -> None:
        self._end_row(_key(task), time, trained=False)
        host = self._hosts.pop(_key(task), "") if not in_place else self._hosts.get(_key(task), "")
        self._of[_key(task)] = self._add(
            Outage(
                what=str(task), attempt=task.attempt, cause=cause, message=message, lost=time, noticed=noticed,
                host=host, in_place=in_place, now_on=host if in_place else "",
            )
        )  # fmt: skip

    def _of_generation(self, event: ev.AnyEvent, time: float) -> None:
        match event:
            case ev.GenerationEnded():
                if self._ready and self._back is None:
                    self._back = event
                    self._back_row = 0 if self._with_master else self._newest
                self._ready = False
                stood = not self._at_work
                self._at_work.clear()
                if not stood:
                    self._stands(self._gone_since(time))
            case ev.VariablesReady():
                self._ready = True
                self._restored = self._newest
                self._tell_what_was_lost(event)
            case _:
                return

    def _gone_since(self, time: float) -> float:
        """When nobody could train any more, of a generation that ended at `time`."""
        if self._with_master and self._heard:
            return self._heard
        lost = self._rows.get(self._newest)
        return lost.lost if lost is not None and lost.noticed == time else time

    def _tell_what_was_lost(self, event: ev.VariablesReady) -> None:
        back, number = self._back, self._back_row
        row = self._rows.get(number)
        self._back, self._back_row = None, 0
        if back is None or row is None:
            return
        if event.kept:
            row_after = structs.replace(row, missing_samples=event.lost_samples)
        else:
            steps = None if back.step is None else max(0, back.step - event.step)
            known = back.samples is not None and event.samples is not None
            samples = max(0, (back.samples or 0) - (event.samples or 0)) if known else None
            row_after = structs.replace(row, redone=Redone(steps=steps, samples=samples))
        self._rows[number] = row_after

    def _works(self, task: TaskId, time: float) -> None:
        self._end_row(_key(task), time, trained=True)
        if task.role not in ("chief", "worker"):
            return
        self._at_work.add(_key(task))
        self._moves(time)
        if self._restored:
            served = [n for n, row in self._rows.items() if n <= self._restored and row.what.startswith(_SERVED)]
            for number in served:
                self._close(number, time, trained=True)
            self._restored = 0

    def _stands(self, time: float) -> None:
        """Somebody who was at work is lost: was it the last one?"""
        if not self._at_work and not self._sum.still_since and not self._sum.ended:
            self._sum = structs.replace(self._sum, still_since=max(time, self._moved))

    def _moves(self, time: float) -> None:
        self._moved, self._left = time, 0.0
        if self._sum.still_since:
            self._sum = structs.replace(self._sum, still_s=self._sum.seconds(time), still_since=0.0)

    def _add(self, row: Outage) -> int:
        self._newest += 1
        self._rows[self._newest] = row
        while len(self._rows) > KEPT:
            del self._rows[next(iter(self._rows))]
        told = self._sum
        self._sum = structs.replace(
            told, restarts=told.restarts + 1, masters=told.masters + (row.what == MASTER),
            with_master=told.with_master + row.tasks,
        )  # fmt: skip
        return self._newest

    def _update(self, task: TaskId, **fields: object) -> None:
        number = self._of.get(_key(task), 0)
        if number in self._rows and not self._rows[number].over:
            self._rows[number] = structs.replace(self._rows[number], **fields)

    def _end_row(self, key: _Key, time: float, *, trained: bool) -> None:
        """The task's open row ends, if it has one."""
        self._close(self._of.get(key, 0), time, trained=trained)

    def _close(self, number: int, time: float, *, trained: bool) -> None:
        row = self._rows.get(number)
        if row is None or row.over or not self._sum.known:
            return
        row = structs.replace(row, over=time, trained=time if trained else 0.0)
        self._rows[number] = row
        if row.what != MASTER:
            self._sum = structs.replace(self._sum, task_s=(self._sum.task_s or 0.0) + (row.away or 0.0))


def _key(task: TaskId) -> _Key:
    return task.role, task.index

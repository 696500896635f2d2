"""Follows the events as they are written, knows on its own what may come next, and says where something else came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from afo.events import types as ev
from afo.failures.causes import NEEDS_REPAIR
from afo.job import Role
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo.rpc.messages import TaskId
from simulation import workers
from simulation.broken import Broken
from simulation.policy import ANY_TIME, MAX_IN_PLACE, SLACK_S, WAITS, Judgement, Line

#: Ends of tasks that belong to the end of their job.
_WITH_JOB = ("succeeded", "ended_with_job")
#: Ends of tasks that were told to leave.
LEAVING = ("scaled_away", "slow")
#: What may follow from the end of a task before the AM says whether its job goes on.
_IN_BETWEEN = (ev.OrderDone, ev.TaskStalled)
#: What may come after the last event: another start of the AM, and ends of what it could not reach in time.
_AFTERWARDS = (ev.AmStarted, ev.OrderDone, ev.TaskEnded, ev.ContainerEnded)


class Ledger:
    """What the events so far allow. `take` raises `Broken`."""

    def __init__(self, config: AmConfig) -> None:
        self.config = config
        self.lines: dict[tuple[Role, int], Line] = {}
        self.handles: set[str] = set()
        #: After its containers were given back a job asks for nothing until then, and a little longer.
        self.ask_at = 0.0
        #: Since when it lacks a part of its gang; None unless it gave its containers back since.
        self.lacks_since: float | None = None
        #: Number of the last process that was started anew in place, by attempt.
        self.in_place: dict[TaskId, int] = {}
        #: How many were, by attempt.
        self.starts_in_place: Counter[TaskId] = Counter()
        #: Tasks of whose present processes it was said that they are at work.
        self.at_work: set[TaskId] = set()
        self.generation = 1
        self.formed = False
        self.ready = False
        #: Parameter servers that hold their variables; those that the present generation is to keep; where they listen.
        self.holders: set[int] = set()
        self.kept: set[int] = set()
        self.addresses: tuple[str, ...] = ()
        self.manifest = ""
        self.positions: dict[str, tuple[tuple[int, int, int, int], ...]] = {"": ()}
        #: Splits that were named, and whether these are all.
        self.splits = 0
        self.closed = False
        self.leases: dict[int, TaskId] = {}
        self.done: set[tuple[int, int]] = set()
        self.incarnation = 0
        self.killed = False
        self.verdict: ev.JobEnding | None = None
        self.finished: ev.JobFinished | None = None
        #: Workers that are wanted, and when which of them were replaced for being slow.
        self.workers = config.job.roles["worker"].count
        self.replaced: list[tuple[float, int]] = []
        #: Workers that the world has slowed down; None where messages are lost, and rates with them.
        self.slowed: set[tuple[str, int]] | None = set()
        #: What the events that come next follow from.
        self.stimulus: object = None
        self.orders = 0
        self.open_orders: set[int] = set()
        #: What is to follow from the end of a task that was just written.
        self.judgement: Judgement | None = None
        self.ended: ev.TaskEnded | ev.ProcessEnded | None = None
        #: Causes of failure that the world gave reason for; the policy for a task's end does not hold for them.
        self.provoked: set[str] = set()

    def take(self, event: ev.AnyEvent, time: float) -> None:
        """The next event."""
        if self.finished is not None and not isinstance(event, _AFTERWARDS):
            raise Broken(f"after the last event came {event}")
        if self.judgement is not None and not isinstance(event, _IN_BETWEEN):
            self._judge(event)
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, event, time)

    def _judge(self, event: ev.AnyEvent) -> None:
        judgement, ended = self.judgement, self.ended
        self.judgement = None
        if isinstance(event, ev.TaskGivenUp) and event.task == ended.task and judgement.fails:
            return
        failed = isinstance(event, ev.JobEnding) and event.state == "FAILED"
        if judgement.fails is True and not failed:
            raise Broken(f"the job goes on with {type(event).__name__} though {judgement.words}: {ended}")
        if judgement.fails is False and failed and event.first_task == ended.task and event.cause == ended.cause:
            raise Broken(f"the job failed though {judgement.words}: {ended}; {event.diagnostics}")

    def is_live(self, task: TaskId) -> bool:
        """Whether the AM may take this attempt for a live one."""
        line = self.lines[task.role, task.index]
        return line.attempt == task.attempt and line.stage in ("open", "registered")

    def line(self, task: TaskId, *stages: str) -> Line:
        line = self.lines.get((task.role, task.index))
        if line is None or line.attempt != task.attempt or line.stage not in stages:
            raise Broken(f"attempt {task.attempt} of {task} is not {' or '.join(stages)} but {line}")
        return line

    def no_verdict(self, event: ev.AnyEvent) -> None:
        if self.verdict is not None:
            raise Broken(f"after the verdict came {event}")

    # -- the AM and the job ------------------------------------------------------------------------------------------

    def _am_started(self, event: ev.AmStarted, time: float) -> None:
        if event.incarnation <= self.incarnation:
            raise Broken(f"incarnation {event.incarnation} after {self.incarnation}")
        self.incarnation = event.incarnation
        self.at_work.clear()  # it forgets, and says it again
        for line in self.lines.values():  # it forgets the pauses
            line.window = 0.0, line.window[1]

    def _kill_requested(self, event: ev.KillRequested, time: float) -> None:
        self.killed = True

    def _job_ending(self, event: ev.JobEnding, time: float) -> None:
        if self.verdict is not None:
            raise Broken(f"a second verdict {event} after {self.verdict}")
        if (event.state == "KILLED") != (self.killed and event.cause == "killed_by_user"):
            raise Broken(f"{event} though {'somebody' if self.killed else 'nobody'} asked for the end of the job")
        first = event.first_task
        if (
            first
            and event.cause in NEEDS_REPAIR
            and self.lines[first.role, first.index].ends.is_overdue(self.config.job, time)
        ):
            self.provoked.add(event.cause)  # while nobody trained, and not with the end of a task
        if self.lacks_since is not None and time - self.lacks_since > self.config.job.timeouts.allocate:
            self.provoked.add("allocation_timeout")
        self.verdict = event

    def _job_finished(self, event: ev.JobFinished, time: float) -> None:
        if self.verdict is None or (event.state, event.cause) != (self.verdict.state, self.verdict.cause):
            raise Broken(f"finished as {event.state} ({event.cause}), the verdict was {self.verdict}")
        self.finished = event

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _container_requested(self, event: ev.ContainerRequested, time: float) -> None:
        key = (event.task.role, event.task.index)
        line = self.lines.get(key)
        if line is None:
            if event.task.attempt != 0:
                raise Broken(f"the first attempt of {event.task} is {event.task.attempt}")
            self.lines[key] = Line()
            return
        self.no_verdict(event)
        if line.stage != "ended" or line.given_up or event.task.attempt != line.attempt + 1:
            raise Broken(f"attempt {event.task.attempt} of {event.task} is asked for beside {line}")
        if event.task.role == "worker" and event.task.index >= self.workers:
            raise Broken(f"{event.task} is asked for, and only {self.workers} workers are wanted")
        if not line.window[0] <= time <= max(line.window[1], self.ask_at):
            raise Broken(f"attempt {event.task.attempt} of {event.task} is asked for too early or too late: {line}")
        line.attempt, line.stage, line.window = event.task.attempt, "open", (0.0, ANY_TIME)
        line.leaves, line.slow = "", False

    def _gang_released(self, event: ev.GangReleased, time: float) -> None:
        self.ask_at = time + event.pause_s + SLACK_S
        if self.lacks_since is None:
            self.lacks_since = time - event.waited_s

    def _container_assigned(self, event: ev.ContainerAssigned, time: float) -> None:
        if event.handle in self.handles:
            raise Broken(f"container {event.handle} has two tasks, {event.task} is the second")
        self.handles.add(event.handle)

    def _container_running(self, event: ev.ContainerRunning, time: float) -> None:
        line = self.line(event.task, "open", "registered")
        line.runs_since = line.runs_since or time

    def _container_ended(self, event: ev.ContainerEnded, time: float) -> None:
        line = self.lines[event.task.role, event.task.index]
        if line.attempt == event.task.attempt:
            self._ran(line, time)

    def _ran(self, line: Line, time: float) -> None:
        """A program's process that lived for long did something."""
        job = self.config.job
        if job.program and line.runs_since and time - line.runs_since > job.timeouts.repair:
            line.ends.unmended.clear()
        line.runs_since = 0.0

    def _task_registered(self, event: ev.TaskRegistered, time: float) -> None:
        self.no_verdict(event)
        line = self.line(event.task, "open")
        line.stage, line.runs_since = "registered", line.runs_since or time

    def _task_ended(self, event: ev.TaskEnded, time: float) -> None:
        self._is_of_present_generation(event)
        stages = ("registered",) if event.cause == "succeeded" else ("open", "registered")
        line = self.line(event.task, *stages)
        line.stage = "succeeded" if event.cause == "succeeded" else "ended"
        self._release(event.task)
        self._ran(line, time)
        if event.progress is not None and event.progress.samples:
            self._trained(event.task)
        if self.verdict is not None:
            if event.cause not in _WITH_JOB:
                raise Broken(f"blamed after the verdict: {event}")
        elif event.cause != line.leaves and (line.leaves or event.cause in LEAVING) and event.cause != "succeeded":
            raise Broken(f"{event} of one that {f'leaves as {line.leaves}' if line.leaves else 'nobody told to leave'}")
        elif event.cause not in ("succeeded", "scaled_away"):
            self._blame(event, line, time)

    def _is_of_present_generation(self, event: ev.TaskEnded) -> None:
        """A process that stays has done its work in this generation, or not at all; and no loss of a server ends it."""
        said = event.progress.generation if event.progress and self._stays(event.task) else 0
        known = event.cause in ("succeeded", "generation_lost")
        if said and known and (said == self.generation) != (event.cause == "succeeded"):
            raise Broken(f"{event} of a process of generation {said}, now is {self.generation}")

    def _stays(self, task: TaskId) -> bool:
        return self.config.job.clients_stay and task.role in ("chief", "worker")

    def _given_up(self, event: ev.TaskGivenUp, time: float) -> None:
        line, spec = self.lines[event.task.role, event.task.index], self.config.job.roles[event.task.role]
        if self.ended is None or self.ended.task != event.task:
            raise Broken(f"{event} though nothing happened to it")
        line.given_up = True
        gone = sum(
            each.given_up for (role, index), each in self.lines.items() if role == "worker" and index < self.workers
        )
        if not (
            spec.optional if event.task.role == "evaluator" else gone <= self.workers * (1 - spec.min_success) + 1e-9
        ):
            raise Broken(f"{event}: the job cannot do without it, {gone} workers are gone")

    def _process_ended(self, event: ev.ProcessEnded, time: float) -> None:
        self.no_verdict(event)
        if event.number <= self.in_place.get(event.task, 0):
            raise Broken(f"{event} after the process end {self.in_place.get(event.task, 0)} of this attempt")
        self.in_place[event.task] = event.number
        self.at_work.discard(event.task)
        self.starts_in_place[event.task] += 1
        if self.starts_in_place[event.task] > MAX_IN_PLACE:
            raise Broken(f"{event}: another start in a container that had {MAX_IN_PLACE}")
        if self.lines[event.task.role, event.task.index].leaves:
            raise Broken(f"{event} of one that was told to leave")
        self._blame(event, self.line(event.task, "registered"), time)

    def _blame(self, event: ev.TaskEnded | ev.ProcessEnded, line: Line, time: float) -> None:
        if event.task.role == "ps":
            self.holders.discard(event.task.index)
        line.ends.add(event.cause, event.message, time)
        everyone = [each.ends for each in self.lines.values()]
        self.judgement = line.ends.judge(self.config.job, event.task.role, time, event.cause, everyone)
        self.ended = event
        if event.cause in self.provoked or line.given_up:
            self.judgement = None
        if event.cause not in WAITS:
            early, late = line.ends.pause(self.config.job, time)
            line.window = early, ANY_TIME if event.task.role == "ps" else late

    def _is_at_work(self, event: ev.TaskAtWork, time: float) -> None:
        self.no_verdict(event)
        self.line(event.task, "registered")
        if event.task in self.at_work or event.generation != self.generation:
            raise Broken(f"{event} in generation {self.generation}, told before: {event.task in self.at_work}")
        said = getattr(getattr(self.stimulus, "progress", None), "generation", 0)
        if self._stays(event.task) and not (self.ready and said == self.generation):
            raise Broken(f"{event} by a process of generation {said}, ready: {self.ready}")
        self.at_work.add(event.task)

    def heard(self, beat: m.HeartbeatRequest) -> None:
        """A heartbeat was answered: of a process that trains it is told that it is at work."""
        task, progress = beat.task, beat.progress
        generation = progress.generation if progress is not None and self._stays(task) else beat.generation
        if self.verdict or not self.is_live(task) or not beat.process_alive or generation != self.generation:
            return
        trains = task.role in ("chief", "worker") and progress is not None and progress.samples > 0
        if trains and self.lines[task.role, task.index].stage == "registered" and task not in self.at_work:
            raise Broken(f"{task} (attempt {task.attempt}) trains, and no event says that it is at work")

    # -- generations -------------------------------------------------------------------------------------------------

    def _generation_started(self, event: ev.GenerationStarted, time: float) -> None:
        self.no_verdict(event)
        if event.generation != self.generation or (self.formed and self.config.job.restarts_together):
            raise Broken(f"{event} in generation {self.generation}")
        addresses = [address for role in event.cluster.values() for address in role] or list(event.ps)
        if not all(addresses) or len(set(addresses)) != len(addresses):
            raise Broken(f"{event}: two tasks with one address, or one without")
        for role in () if self.formed else self.config.job.listening:
            if any(line.stage != "registered" for (each, _), line in self.lines.items() if each == role):
                raise Broken(f"generation {event.generation} began without all tasks of {role}")
            if any(line.window[0] > time for (each, _), line in self.lines.items() if each == role):
                raise Broken(f"generation {event.generation} began before the pause of a {role} was over")
        if self.holders != self.kept:
            raise Broken(f"{event} is to keep {self.kept}, and of them {self.kept - self.holders} are lost")
        for index, (before, now) in enumerate(zip(self.addresses, event.ps, strict=False)):
            if (before == now) != (index in self.kept) and event.generation > 1:
                raise Broken(f"{event}: ps:{index} was at {before}, and {'' if index in self.kept else 'not '}kept")
        self.formed, self.lacks_since, self.addresses = True, None, event.ps

    def _generation_ended(self, event: ev.GenerationEnded, time: float) -> None:
        self.no_verdict(event)
        if event.generation != self.generation or not (self.formed or self.kept - self.holders):
            raise Broken(f"{event} in generation {self.generation}")
        if set(event.kept) != self._to_keep():
            raise Broken(f"{event} keeps not {self._to_keep()}")
        self.kept, self.holders = set(event.kept), set(event.kept)
        if event.manifest != self.manifest:
            raise Broken(f"back to {event.manifest or 'the beginning'}, the newest checkpoint is {self.manifest}")
        self.generation, self.formed, self.ready = self.generation + 1, False, False
        self.at_work.clear()
        job = self.config.job
        for (role, _), line in self.lines.items():
            if line.stage == "succeeded" and not event.kept and (role in ("chief", "worker") or role in job.listening):
                line.stage, line.window = "ended", (0.0, ANY_TIME)
        self.leases = {split: task for split, task in self.leases.items() if task.role == "evaluator"}

    def _to_keep(self) -> set[int]:
        """With the first two servers the data position is lost."""
        partial = self.config.job.checkpoint.on_ps_loss == "partial" and self.manifest
        return set(self.holders) if partial and self.holders & {0, 1} else set()

    def _variables_ready(self, event: ev.VariablesReady, time: float) -> None:
        self.no_verdict(event)
        if self.ready or event.generation != self.generation or event.restored not in self.positions:
            raise Broken(f"{event} in generation {self.generation}, ready: {self.ready}")
        if event.generation > 1 and event.restored != self.manifest:
            raise Broken(f"restored {event.restored}, the newest checkpoint was {self.manifest}")
        if set(event.kept) != self.kept or self.kept - self.holders:
            raise Broken(f"{event} is to keep {self.kept}, {self.holders} hold their variables")
        self.ready = True
        if "ps" in self.config.job.roles:
            self.holders = set(range(self.config.job.roles["ps"].count))
        if self.generation > 1 and not event.kept:
            kept = {
                (split, epoch): None
                for split, upto, _, _ in self.positions[event.restored]
                for epoch in range(upto + 1)
            }
            self.done &= kept.keys()

    # -- work --------------------------------------------------------------------------------------------------------

    def _splits_added(self, event: ev.SplitsAdded, time: float) -> None:
        self.no_verdict(event)
        if self.closed or event.first != self.splits or not (event.splits or event.closed):
            raise Broken(f"{event} after {self.splits} splits, closed: {self.closed}")
        self.splits, self.closed = self.splits + len(event.splits), event.closed

    def _split_leased(self, event: ev.SplitLeased, time: float) -> None:
        self.no_verdict(event)
        if self.line(event.task, "registered").leaves:
            raise Broken(f"{event} to one that was told to leave")
        if event.split in self.leases or (event.split, event.epoch) in self.done or not self.ready:
            raise Broken(f"{event} while it is read by {self.leases.get(event.split)}, or done, or before the start")
        if event.epoch and (event.split, event.epoch - 1) not in self.done:
            raise Broken(f"{event} before its epoch {event.epoch - 1} is done")
        if not 0 <= event.split < self.splits or (event.epoch and not self.closed):
            raise Broken(f"{event} of {self.splits} splits, closed: {self.closed}")
        self.leases[event.split] = event.task

    def _trained(self, task: TaskId) -> None:
        """Of the chief, which saves, that is not enough."""
        if task.role == "worker" and (task.role, task.index) != self.config.job.chief:
            self.lines[task.role, task.index].ends.unmended.clear()

    def _evaluated(self, event: ev.Evaluated, time: float) -> None:
        self.lines[event.task.role, event.task.index].ends.unmended.clear()

    def _split_done(self, event: ev.SplitDone, time: float) -> None:
        self._trained(event.task)
        if self.leases.pop(event.split, None) != event.task or (event.split, event.epoch) in self.done:
            raise Broken(f"{event} of another's or a done file")
        self.done.add((event.split, event.epoch))

    def _checkpoint_written(self, event: ev.CheckpointWritten, time: float) -> None:
        self.line(event.task, "registered")
        if event.generation != self.generation:
            raise Broken(f"{event} in generation {self.generation}")
        if _number(event.manifest) < _number(self.manifest):
            raise Broken(f"{event.manifest} became the newest checkpoint after {self.manifest}")
        self.positions[event.manifest] = event.positions
        self.manifest = event.manifest
        for key, line in self.lines.items():
            if key[0] == "ps" or key == self.config.job.chief:
                line.ends.unmended.clear()

    def _release(self, task: TaskId) -> None:
        self.leases = {split: holder for split, holder in self.leases.items() if holder != task}

    # -- orders ------------------------------------------------------------------------------------------------------

    def _order_given(self, event: ev.OrderGiven, time: float) -> None:
        self.line(event.task, "registered")
        if event.order != self.orders + 1:
            raise Broken(f"{event} after order {self.orders}")
        self.orders = event.order
        self.open_orders.add(event.order)

    def _order_done(self, event: ev.OrderDone, time: float) -> None:
        if event.order not in self.open_orders:
            raise Broken(f"{event}: it was never given, or is over")
        self.open_orders.remove(event.order)


def _number(manifest: str) -> int:
    return int(manifest.rpartition("-")[2] or 0)


_STEPS: dict[type, Callable[[Ledger, Any, float], None]] = {
    ev.AmStarted: Ledger._am_started,
    ev.ContainerRequested: Ledger._container_requested,
    ev.ContainerAssigned: Ledger._container_assigned,
    ev.GangReleased: Ledger._gang_released,
    ev.ContainerRunning: Ledger._container_running,
    ev.ContainerEnded: Ledger._container_ended,
    ev.TaskRegistered: Ledger._task_registered,
    ev.GenerationStarted: Ledger._generation_started,
    ev.GenerationEnded: Ledger._generation_ended,
    ev.TaskAtWork: Ledger._is_at_work,
    ev.VariablesReady: Ledger._variables_ready,
    ev.SplitsAdded: Ledger._splits_added,
    ev.SplitLeased: Ledger._split_leased,
    ev.SplitDone: Ledger._split_done,
    ev.Evaluated: Ledger._evaluated,
    ev.CheckpointWritten: Ledger._checkpoint_written,
    ev.TaskEnded: Ledger._task_ended,
    ev.TaskGivenUp: Ledger._given_up,
    ev.ProcessEnded: Ledger._process_ended,
    ev.WorkersScaled: workers.scaled,
    ev.TaskSlow: workers.found_slow,
    ev.KillRequested: Ledger._kill_requested,
    ev.OrderGiven: Ledger._order_given,
    ev.OrderDone: Ledger._order_done,
    ev.JobEnding: Ledger._job_ending,
    ev.JobFinished: Ledger._job_finished,
}

"""Application of events to the state of a job: the only way to change what the journal covers. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from afo.events import split_list
from afo.events import types as ev
from afo.failures.causes import CAUSES, NEEDS_REPAIR, NO_RESTART, OF_THE_HOST, SCALED_AWAY, WAITS
from afo.protocol.input_file import InputFile
from afo_am.state import manual_repair
from afo_am.state.job_state import SUCCEEDED, InvalidState, JobState
from afo_am.state.tasks import LIVE, Fault, Holder, Leaving, Repair, Stage, Task


def apply(state: JobState, event: ev.AnyEvent, time: float) -> None:
    """Take in one event of wall clock `time`. Raises `IllegalTransition` where it cannot have happened."""
    _APPLY[type(event)](state, event, time)
    state.gang.take(event, time)
    state.masters.take(event, time)
    state.heard = time


def _job_started(state: JobState, event: ev.JobStarted, time: float) -> None:
    state.started = event.submitted or time
    if event.train_files is not None:
        # Until version 4 of the log; the names alone do not tell a file from a part of it.
        _add_splits(state, event, state.config.splits)


def _splits_added(state: JobState, event: ev.SplitsAdded, time: float) -> None:
    _add_splits(state, event, event.splits)


def _add_splits(state: JobState, event: ev.JobStarted | ev.SplitsAdded, splits: Sequence[InputFile]) -> None:
    if words := split_list.misfit(event, state.splits.number, state.splits.closed):
        raise InvalidState(words)
    state.files += splits
    state.splits.add(len(splits), closed=split_list.closes(event))


def _am_started(state: JobState, event: ev.AmStarted, time: float) -> None:
    state.incarnation, state.am_attempt, state.am_host = event.incarnation, event.am_attempt, event.host


def _container_requested(state: JobState, event: ev.ContainerRequested, time: float) -> None:
    key = (event.task.role, event.task.index)
    if key in state.requested:
        state.restarts += state.tasks[key].last_cause not in NO_RESTART
        state.tasks[key].move(Stage.REQUESTED)
    state.requested.add(key)


def _container_assigned(state: JobState, event: ev.ContainerAssigned, time: float) -> None:
    state.tasks[event.task.role, event.task.index].handle = event.handle


def _container_running(state: JobState, event: ev.ContainerRunning, time: float) -> None:
    task = state.tasks[event.task.role, event.task.index]
    task.container, task.host, task.node = event.container, task.host or event.host, event.host
    task.running_since = task.running_since or time
    if task.stage is Stage.REQUESTED:
        task.move(Stage.ALLOCATED)


def _container_ended(state: JobState, event: ev.ContainerEnded, time: float) -> None:
    task = state.tasks[event.task.role, event.task.index]
    if task.id == event.task:
        task.container_over = True
        _charge(state, task, time)


def _task_registered(state: JobState, event: ev.TaskRegistered, time: float) -> None:
    task = state.tasks[event.task.role, event.task.index]
    task.container, task.host, task.log_url = event.container, event.host, event.log_url
    task.running_since = task.running_since or time
    task.move(Stage.REGISTERED)


def _generation_started(state: JobState, event: ev.GenerationStarted, time: float) -> None:
    state.cluster = event.cluster or {"ps": event.ps}
    state.splits_at_start = state.splits.number


def _generation_ended(state: JobState, event: ev.GenerationEnded, time: float) -> None:
    state.generation = event.generation + 1
    state.cluster = {}
    state.ready = False
    state.restore = event.manifest
    state.holders = {index: holder for index, holder in state.holders.items() if index in event.kept}
    for task in state.of_role("chief", "worker", *state.config.job.listening):
        state.splits.release(task.id)
        task.at_work = False
        # Where the data do not go back, a worker that has finished has nothing more to do.
        if task.stage is Stage.SUCCEEDED and not event.kept:
            task.move(Stage.ENDED)


def _variables_ready(state: JobState, event: ev.VariablesReady, time: float) -> None:
    state.ready = True
    state.holders = {
        index: state.holders.get(index) or Holder(event.generation, address) for index, address in enumerate(state.ps)
    }
    state.train_began = state.train_began or time
    state.restore = event.restored
    state.step = event.step
    if not event.restored:
        state.first_step = event.step
    state.evaluations.note(event)
    if (state.generation > 1 or event.restored) and not event.kept:
        state.splits.roll_back(state.checkpoints.get(event.restored, ()))


def _split_leased(state: JobState, event: ev.SplitLeased, time: float) -> None:
    state.splits.lease(event.split, event.task)


def _split_done(state: JobState, event: ev.SplitDone, time: float) -> None:
    state.splits.complete(event.split, event.epoch, event.count, event.xor, event.bad, event.unread)
    state.evaluations.notes.take(event)
    state.train_ended = time
    manual_repair.note_training(state, event.task)


def _bad_records_exceeded(state: JobState, event: ev.BadRecordsExceeded, time: float) -> None:
    """The verdict follows in its own event."""


def _checkpoint_begun(state: JobState, event: ev.CheckpointBegun, time: float) -> None:
    state.saving = event.directory


def _checkpoint_written(state: JobState, event: ev.CheckpointWritten, time: float) -> None:
    state.checkpoints[event.manifest] = event.positions
    state.checkpoint_steps[event.manifest] = event.step
    state.newest_manifest = event.manifest
    manual_repair.note_checkpoint(state)
    state.step = max(state.step, event.step)
    if event.final:
        state.final_manifest = event.manifest


def _note_version(state: JobState, event: ev.VersionExported | ev.VersionWithheld, time: float) -> None:
    state.evaluations.note_version(event)


def _checkpoint_evaluated(state: JobState, event: ev.Evaluated, time: float) -> None:
    state.evaluations.take(event)
    state.tasks[event.task.role, event.task.index].repair = None


def _note_evaluations(state: JobState, event: ev.WarmStarted | ev.StoppedEarly | ev.ExportDecided, time: float) -> None:
    state.evaluations.note(event)


def _task_ended(state: JobState, event: ev.TaskEnded, time: float) -> None:
    task = state.tasks[event.task.role, event.task.index]
    state.splits.release(event.task)
    _charge(state, task, time)
    task.last_cause = event.cause
    task.move(Stage.SUCCEEDED if event.cause == SUCCEEDED else Stage.ENDED)
    _blame(task, event, time)
    _count_for_repair(state, task, event, time)
    if event.cause == "slow":
        task.slow_hosts |= {task.host, task.node} - {""}
    task.refusals = task.refusals + 1 if event.cause == "bad_host" else 0
    if event.cause in OF_THE_HOST:
        for host in {task.host, task.node} - {""}:
            state.host_faults.setdefault(host, []).append(time)


def _task_given_up(state: JobState, event: ev.TaskGivenUp, time: float) -> None:
    state.tasks[event.task.role, event.task.index].given_up = True


def _process_ended(state: JobState, event: ev.ProcessEnded, time: float) -> None:
    state.restarts += 1
    task = state.tasks[event.task.role, event.task.index]
    task.process_ends = event.number or task.process_ends + 1
    task.in_place += 1
    task.at_work = False
    _blame(task, event, time)


def _leave_unchanged(
    state: JobState,
    event: ev.KillRequested | ev.TaskStalled | ev.TaskAtWork | ev.ContainersAwaited | ev.GangReleased,
    time: float,
) -> None:
    """For who reads the log: the state does not change by it."""


def _workers_scaled(state: JobState, event: ev.WorkersScaled, time: float) -> None:
    state.workers = event.number
    for task in state.of_role("worker"):
        if task.stage in LIVE and not state.is_wanted(task):
            task.leaving = Leaving(SCALED_AWAY, f"{event.user} wants {event.number} workers")


def _task_slow(state: JobState, event: ev.TaskSlow, time: float) -> None:
    task = state.tasks[event.task.role, event.task.index]
    if event.stays:
        task.stays_slow = True
        return
    rate = f"{event.samples_per_s:,.0f} samples/s in {event.seconds:.0f} s"
    task.leaving = Leaving("slow", f"{rate}, the median of the others is {event.median:,.0f} (`restart.slow`)")
    state.replaced_slow.append((time, event.task.index))


def _order_given(state: JobState, event: ev.OrderGiven, time: float) -> None:
    state.orders, state.open_orders[event.order] = event.order, event


def _order_done(state: JobState, event: ev.OrderDone, time: float) -> None:
    state.open_orders.pop(event.order, None)


def _job_ending(state: JobState, event: ev.JobEnding, time: float) -> None:
    state.verdict, state.verdict_cause, state.diagnostics = event.state, event.cause, event.diagnostics
    state.first_task = event.first_task
    state.ending_since = time


def _job_finished(state: JobState, event: ev.JobFinished, time: float) -> None:
    state.finished = event


def _sample(state: JobState, event: ev.Sample, time: float) -> None:
    state.step = max(state.step, event.step)


def _charge(state: JobState, task: Task, time: float) -> None:
    if task.running_since:
        seconds, spec = max(0.0, time - task.running_since), state.spec(task.id.role)
        state.core_seconds += seconds * spec.vcores
        state.memory_mib_seconds += seconds * spec.memory
        task.running_since = 0.0
        manual_repair.note_run(state, task, seconds)


def _blame(task: Task, event: ev.TaskEnded | ev.ProcessEnded, time: float) -> None:
    if CAUSES[event.cause].blame == "user":
        task.faults.append(Fault(time, event.cause, event.message))
        task.ends.append(time)
    elif CAUSES[event.cause].retried and event.cause not in WAITS:
        task.free_restarts += 1
        task.ends.append(time)


def _count_for_repair(state: JobState, task: Task, event: ev.TaskEnded, time: float) -> None:
    if manual_repair.has_trained(event.progress):
        manual_repair.note_training(state, event.task)
    if event.cause in NEEDS_REPAIR:
        since, times = (task.repair.since, task.repair.times) if task.repair else (time, 0)
        task.repair = Repair(since, times + 1, event.cause, task.host)


_Apply = Callable[[JobState, Any, float], None]
_APPLY: dict[type, _Apply] = {
    ev.JobStarted: _job_started,
    ev.SplitsAdded: _splits_added,
    ev.AmStarted: _am_started,
    ev.ContainerRequested: _container_requested,
    ev.ContainerAssigned: _container_assigned,
    ev.ContainerRunning: _container_running,
    ev.ContainerEnded: _container_ended,
    ev.TaskRegistered: _task_registered,
    ev.TaskAtWork: _leave_unchanged,
    ev.ContainersAwaited: _leave_unchanged,
    ev.GangReleased: _leave_unchanged,
    ev.GenerationStarted: _generation_started,
    ev.GenerationEnded: _generation_ended,
    ev.VariablesReady: _variables_ready,
    ev.WarmStarted: _note_evaluations,
    ev.SplitLeased: _split_leased,
    ev.SplitDone: _split_done,
    ev.BadRecordsExceeded: _bad_records_exceeded,
    ev.CheckpointBegun: _checkpoint_begun,
    ev.CheckpointWritten: _checkpoint_written,
    ev.VersionExported: _note_version,
    ev.VersionWithheld: _note_version,
    ev.Evaluated: _checkpoint_evaluated,
    ev.StoppedEarly: _note_evaluations,
    ev.ExportDecided: _note_evaluations,
    ev.TaskEnded: _task_ended,
    ev.TaskGivenUp: _task_given_up,
    ev.ProcessEnded: _process_ended,
    ev.KillRequested: _leave_unchanged,
    ev.TaskStalled: _leave_unchanged,
    ev.TaskSlow: _task_slow,
    ev.WorkersScaled: _workers_scaled,
    ev.OrderGiven: _order_given,
    ev.OrderDone: _order_done,
    ev.JobEnding: _job_ending,
    ev.JobFinished: _job_finished,
    ev.Sample: _sample,
    ev.TasksUsed: _note_evaluations,
}
#: Events on which nothing that is decided later rests: the state does not change by them, or (`Sample`) only until the
#: next heartbeat.
OBSERVATIONS = frozenset(
    {ev.BadRecordsExceeded, ev.ContainersAwaited, ev.KillRequested, ev.Sample, ev.TaskAtWork, ev.TaskStalled,
     ev.TasksUsed}
)  # fmt: skip
if missing := set(get_args(ev.AnyEvent)) - set(_APPLY):
    raise InvalidState(f"{', '.join(sorted(kind.__name__ for kind in missing))} of AnyEvent: no way into _APPLY")

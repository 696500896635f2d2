"""Invariants of a job's state. Pure; tests check them after each stimulus."""

from collections.abc import Iterator

from afo_am.state.job_state import InvalidState, JobState
from afo_am.state.tasks import LIVE, Stage


def check(state: JobState) -> None:
    """Raises `InvalidState` naming the invariant that does not hold."""
    if words := broken(state):
        raise InvalidState(f"the AM's state is inconsistent: {words}")


def broken(state: JobState) -> str:
    """The first invariant that does not hold, in words; '' if all do."""
    return next((words for words in (*_of_splits(state), *_of_generation(state), *_of_tasks(state))), "")


def _of_splits(state: JobState) -> Iterator[str]:
    splits = state.splits
    for split, holder in splits.leases.items():
        task = state.task(holder)
        if task is None or task.stage is not Stage.REGISTERED:
            yield f"split {split} is leased to {holder}, not live"
        if splits.completed[split] >= splits.epochs:
            yield f"split {split} is leased though complete"
        if split >= splits.number:
            yield f"split {split} is leased, and there are {splits.number}"
    if splits.done != sum(splits.completed):
        yield "count of splits done"
    if not splits.number == len(state.files) == len(splits.completed):
        yield f"{splits.number} splits, {len(state.files)} files"
    if not splits.closed and (splits.finished or max(splits.completed, default=0) > 1):
        yield "a later epoch has begun, or the data have ended, while splits may come"


def _of_generation(state: JobState) -> Iterator[str]:
    if state.ready and not state.cluster:
        yield "ready without parameter servers"
    for role in state.config.job.listening if state.cluster else ():
        if len(state.cluster.get(role, ())) != state.spec(role).count:
            yield f"one address for each {role}"
    if state.finished and not state.verdict:
        yield "finished without a verdict"
    if state.ready and not state.config.job.program and len(state.holders) != len(state.ps):
        yield "ready, and a parameter server does not hold its variables"
    for index in () if state.verdict or state.chief.stage is Stage.SUCCEEDED else state.holders:
        if state.tasks["ps", index].stage is not Stage.REGISTERED:
            yield f"ps:{index} holds its variables and is not live"


def _of_tasks(state: JobState) -> Iterator[str]:
    for order in state.open_orders.values():
        owner = state.task(order.task)
        if owner is None or owner.stage is not Stage.REGISTERED:
            yield f"{order} is for a task that is not live"
    for task in state.tasks.values():
        if task.leaving and task is state.chief:
            yield f"{task.id} is the chief, and is to leave"
        if task.stage in LIVE and not state.is_wanted(task) and not task.leaving:
            yield f"{task.id} lives, and only {state.workers} workers are wanted"
        if task.stage in LIVE and task.container_over:
            yield f"{task.id} lives in a container that is over"
        if task.stage not in LIVE and (task.address or task.process_alive):
            yield f"{task.id} is over and has an address or a process"

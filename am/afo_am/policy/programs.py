"""Jobs that run a user's own program instead of a model: generations in place. Pure.

A program has one cluster definition for all its tasks. With `restart.scope: job`, a process that fails ends the
generation of all: they start anew in place. Processes that fail with it belong to a generation that has ended, so of
one accident one task is blamed, once.
"""

from __future__ import annotations

from afo.job import Role
from afo_am.policy.restarts import holds
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Stage, Task


def form_cluster(state: JobState, now: float) -> dict[Role, tuple[str, ...]]:
    """The addresses of the present generation by role; empty while one is missing, or pauses before its restart."""
    for task in state.of_role(*state.config.job.listening):
        if not holds(state, task) and (
            task.stage is not Stage.REGISTERED or task.address_generation != state.generation or task.not_before > now
        ):
            return {}
    return {role: tuple(_address(state, task) for task in state.of_role(role)) for role in state.config.job.listening}


def _address(state: JobState, task: Task) -> str:
    return state.holders[task.id.index].address if holds(state, task) else task.address


def replace_address(state: JobState, task: Task) -> dict[Role, tuple[str, ...]]:
    """The present cluster with the address of a task that came back elsewhere; empty if nothing has changed."""
    index = task.id.index
    before = state.cluster.get(task.id.role, ())
    if not before or before[index] == task.address:
        return {}
    return {**state.cluster, task.id.role: (*before[:index], task.address, *before[index + 1 :])}

"""Excluded hosts: by whose fault tasks of the job ended, and which get none for a while. Pure.

YARN cannot be told to avoid a host once the application is submitted, so a container there is given back, and asked for
again after a pause that grows (`restart.backoff`), in which YARN may find another host. It is taken after some tries.
"""

from afo_am.policy.lifecycle import Lifecycle
from afo_am.state.context import Context
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Task

#: A container of a task is given back so often in a row.
MAX_REFUSALS = 3


def is_avoided(state: JobState, host: str, wall: float) -> bool:
    """Whether the host has failed tasks more often than `restart.host` allows."""
    limit = state.config.job.restart.host
    return sum(wall - time <= limit.per for time in state.host_faults.get(host, ())) > limit.max


def refuse(context: Context, tasks: Lifecycle, task: Task, host: str) -> bool:
    """Give back a container on a host that is avoided; the task is requested again."""
    if context.state.config.runtime == "local" or task.refusals >= MAX_REFUSALS:  # `local`: there is no other host
        return False
    limit = context.state.config.job.restart.host
    if host in task.slow_hosts:
        why = f"{task.id} was slow on {host} before (`restart.slow`)"
    elif is_avoided(context.state, host, context.wall):
        why = f"{host} failed more than {limit.max} tasks in {limit.per} (`restart.host`)"
    else:
        return False
    tasks.task_lost(task, "bad_host", why)
    return True

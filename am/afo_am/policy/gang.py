"""Gang scheduling: two jobs that hold half of a cluster each must not wait for each other. Pure.

The gang is what a job cannot do without: all parameter servers, the chief, a minimum of workers, and at the start the
evaluator, for which the chief may have to wait at the end. No generation forms without it. While it is not complete
and no container comes for `timeouts.gang`, the job gives all its containers back, pauses, and asks again.
"""

from afo.job import Elastic
from afo_am.state.job_state import JobState
from afo_am.state.tasks import Stage, Task

#: Tasks that a message names.
_NAMED = 8


def missing(state: JobState) -> list[Task]:
    """Tasks that the gang lacks; empty when it is there."""
    job = state.config.job
    whole = {"chief", "ps"} | ({"worker"} if job.program else {"evaluator"} if state.generation == 1 else set())
    waiting = [task for task in state.tasks.values() if task.stage in (Stage.REQUESTED, Stage.ENDED)]
    waiting = [task for task in waiting if state.is_wanted(task) and not task.given_up]
    waiting = [task for task in waiting if not state.spec(task.id.role).optional]
    needed = [task for task in waiting if task.id.role in whole or task is state.chief]
    if job.program:
        return needed
    workers = [task for task in waiting if task.id.role == "worker"]
    instances = job.roles["worker"].instances
    minimum = instances.min if isinstance(instances, Elastic) else 1
    short = len(workers) - (state.workers - minimum)
    others = [task for task in workers if task is not state.chief]
    return needed + others[: max(0, short - (len(workers) - len(others)))]


def is_welcome_any_time(state: JobState, task: Task) -> bool:
    """An elastic worker: once the others train, nobody waits for it."""
    return (
        bool(state.cluster)
        and task.id.role == "worker"
        and task is not state.chief
        and isinstance(state.spec("worker").instances, Elastic)
        and not state.config.job.program
    )


def names(tasks: list[Task]) -> str:
    """The first of them, for a message."""
    return ", ".join(str(task.id) for task in tasks[:_NAMED]) + (" …" if len(tasks) > _NAMED else "")


def stands_still(state: JobState) -> bool:
    """Nothing is trained or run that a release would undo."""
    return not state.cluster or not (state.ready or state.config.job.program)

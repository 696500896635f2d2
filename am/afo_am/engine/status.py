"""The job as a client sees it. Pure."""

from afo.rpc.messages import StatusReply, TaskStatus
from afo_am.core.core import Core
from afo_am.policy.gang import names
from afo_am.policy.samples import progress_of, seconds_left
from afo_am.state import manual_repair
from afo_am.state.job_state import JobState
from afo_am.state.tasks import LIVE, Stage, Task

#: Stopped tasks that the job's line names.
_MOST_HALTED = 3


def status_of(core: Core, job_id: str, now: float) -> StatusReply:
    """A picture of the job at `now` (monotonic seconds)."""
    state, rates = core.state, core.rates
    return StatusReply(
        job_id=job_id,
        name=state.config.job.name,
        state=_phase(core),
        generation=state.generation,
        message=state.diagnostics or _waiting_for(core),
        tasks=tuple(_task_status(state, task) for task in state.tasks.values()),
        step=max(state.step, rates.step),
        samples=rates.samples,
        samples_per_s=rates.samples_per_s(now),
        input_wait=rates.input_wait,
        input_bound=rates.input_bound,
        progress=progress_of(state, rates),
        seconds_left=seconds_left(state, rates, now) if state.ready else None,
        loss=rates.loss,
        staleness=rates.staleness,
        metrics=state.evaluations.metrics,
        splits_done=state.splits.done,
        splits_total=state.splits.total,
        started=state.started,
        restarts=state.restarts,
        notes=state.evaluations.notes.sentences,
        master=state.masters.last,
    )


def _phase(core: Core) -> str:
    state = core.state
    if state.verdict:
        return state.verdict if state.finished else f"ENDING ({state.verdict})"
    if not state.cluster:
        return "STARTING" if state.generation == 1 else "RECOVERING"
    if state.config.job.program:
        return "RUNNING"
    return "TRAINING" if state.ready else "INITIALIZING"


def _waiting_for(core: Core) -> str:
    starting = [task for task in core.state.tasks.values() if task.stage is Stage.ALLOCATED]
    waits = core.waiting.words() or (f"starting {names(starting)}" if starting else "")
    halted = [f"{task.id}: {task.halted}" for task in core.state.tasks.values() if task.halted]
    repairs = manual_repair.words(core.state, core.wall)
    return "; ".join(part for part in (repairs, waits, *halted[:_MOST_HALTED]) if part)


def _state_of(state: JobState, task: Task) -> str:
    if task.given_up:
        return "given up"
    if task.stage is Stage.ENDED and not state.is_wanted(task):
        return "scaled away"
    return "leaving" if task.leaving and task.stage in LIVE else task.stage.value


def _task_status(state: JobState, task: Task) -> TaskStatus:
    between = task.stage is Stage.REGISTERED and not task.process_alive
    return TaskStatus(
        task=task.id, state=_state_of(state, task), container=task.container,
        host=task.host, progress=None if between else task.progress, usage=task.usage, log_url=task.log_url,
    )  # fmt: skip

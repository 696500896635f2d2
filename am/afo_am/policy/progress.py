"""Progress of the training, and the time that is left. Pure."""

from afo_am.state.job_state import JobState
from afo_am.state.rates import Rates


def progress_of(state: JobState, rates: Rates) -> float | None:
    """Share of the job's steps that are made, 0 to 1; None where nobody knows how many there will be."""
    if state.trained or (state.splits.finished and state.splits.total):
        return 1.0
    total = _steps_in_all(state, _made(state, rates))
    return min(1.0, _made(state, rates) / total) if total else None


def seconds_left(state: JobState, rates: Rates, now: float) -> float | None:
    """Until the last step, at the pace of the last minutes; None while there is none."""
    made, pace = _made(state, rates), rates.steps_per_s(now)
    total = _steps_in_all(state, made)
    return (total - made) / pace if total and pace and made < total else None


def _made(state: JobState, rates: Rates) -> int:
    return max(state.step, rates.step) - state.first_step


def _steps_in_all(state: JobState, made: int) -> float | None:
    """What was counted before the job began; else, or once more are made, by the files that were read to their end."""
    job, splits = state.config.job, state.splits
    counted = job.optimizer.schedule.steps
    of_data: float | None = counted if counted and made <= counted else None
    if of_data is None and splits.done:
        of_data = splits.records / splits.done * splits.total / job.data.batch_size
    return min((each for each in (of_data, job.train.max_steps) if each), default=None)

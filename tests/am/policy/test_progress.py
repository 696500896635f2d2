"""How far a job is, and how long the rest will take."""

from msgspec.structs import replace

from afo.job import Optimizer, Schedule, Train
from afo.protocol.am_config import AmConfig
from afo.protocol.train_task import Progress
from afo_am.policy.samples import progress_of, seconds_left
from afo_am.state.job_state import JobState
from afo_am.state.rates import Rates
from fake_cluster import make_config
from job_writer import task_id

TASK = task_id("worker")


def at(step: int, config: AmConfig, *, first_step: int = 0, pace: int = 10) -> tuple[JobState, Rates]:
    """A job that made `pace` steps a second up to `step`."""
    state, rates = JobState(config), Rates()
    state.first_step = first_step
    state.splits.add(len(config.train_files), closed=config.train_closed)
    for second in range(10):
        made = step - pace * (9 - second)
        rates.take(TASK, Progress(phase="training", step=made, samples=made), now=float(second))
    return state, rates


def counted(steps: int) -> AmConfig:
    """A job of 6 files, twice, of which so many steps were counted."""
    return make_config(optimizer=Optimizer(schedule=Schedule(steps=steps)))


def test_by_the_steps_that_were_counted() -> None:
    state, rates = at(250, counted(1000))
    assert progress_of(state, rates) == 0.25
    assert seconds_left(state, rates, 9.0) == 75


def test_a_warm_start_s_steps_are_not_the_job_s() -> None:
    state, rates = at(5250, counted(1000), first_step=5000)
    assert progress_of(state, rates) == 0.25


def test_nobody_knows_before_a_file_is_read_to_its_end() -> None:
    state, rates = at(250, make_config())
    assert (progress_of(state, rates), seconds_left(state, rates, 9.0)) == (None, None)


def test_by_the_files_that_were_read_where_none_were_counted_or_too_few() -> None:
    for config in (make_config(), counted(100)):
        state, rates = at(150, config)
        for split in range(3):
            state.splits.lease(split, TASK)
            state.splits.complete(split, 0, 50 * config.job.data.batch_size, 0)
        assert progress_of(state, rates) == 150 / (50 * 12)


def test_files_that_were_read_say_nothing_of_those_that_may_come() -> None:
    state, rates = at(150, replace(make_config(), train_closed=False))
    state.splits.lease(0, TASK)
    state.splits.complete(0, 0, 1000, 0)
    assert (progress_of(state, rates), seconds_left(state, rates, 9.0)) == (None, None)


def test_the_sooner_of_two_ends() -> None:
    for limit, share in ((500, 0.5), (2000, 0.25)):
        config = counted(1000)
        job = replace(config.job, train=Train(max_steps=limit))
        assert progress_of(*at(250, replace(config, job=job))) == share


def test_nothing_is_left_once_all_files_are_read() -> None:
    state, rates = at(990, make_config(files=1, epochs=1))
    state.splits.lease(0, TASK)
    state.splits.complete(0, 0, 10**6, 0)
    assert progress_of(state, rates) == 1

"""Rates out of counters."""

import pytest

from afo.protocol.input_wait import InputWait
from afo.protocol.train_task import Progress
from afo.rpc.messages import TaskId
from afo_am.state.rates import Rates

A, B = (TaskId(role="worker", index=n, attempt=0) for n in range(2))


def progress(samples: int, step: int = 0, wait: float = 0.0, work: float = 0.0, loss: float | None = None) -> Progress:
    return Progress(
        phase="training", samples=samples, step=step, input_wait=InputWait(reading=wait), step_s=work, loss=loss
    )


def test_all_workers_are_summed_over_the_window() -> None:
    rates = Rates()
    for second in range(5):
        rates.take(A, progress(1000 * second, step=second, wait=0.1 * second, work=second), now=float(second))
        rates.take(B, progress(500 * second, step=second, work=second), now=float(second))
    assert rates.samples == 6000
    assert rates.samples_per_s(4.0) == 1500
    assert abs(rates.input_wait - 0.05) < 1e-9
    assert rates.samples_per_s(60.0) == 0


def test_a_new_process_begins_at_nothing() -> None:
    rates = Rates()
    for samples in (1000, 2000, 300):
        rates.take(A, progress(samples), now=1.0)
    assert rates.samples == 2300


def test_a_restarted_am_counts_nothing_twice() -> None:
    rates = Rates()
    rates.resume(5000, [A])
    rates.take(A, progress(4000), now=1.0)
    rates.take(A, progress(4100), now=2.0)
    rates.take(B, progress(10), now=2.0)
    assert rates.samples == 5110


def test_a_loss_that_is_no_number_is_none() -> None:
    rates = Rates()
    rates.take(A, progress(1, loss=0.5), now=1.0)
    assert rates.loss == 0.5
    rates.take(A, progress(2, loss=float("nan")), now=2.0)
    assert rates.loss is None


def test_only_a_change_is_progress() -> None:
    rates = Rates()
    for now in (1.0, 2.0, 3.0):
        rates.take(A, progress(7), now=now)
    assert rates.changed_at == 1.0


def test_waiting_is_no_progress() -> None:
    rates = Rates()
    for now in (1.0, 2.0, 3.0):
        rates.take(A, progress(7, wait=now, work=now), now=now)
    assert (rates.changed_at, rates.input_wait) == (1.0, 1.0)


def test_what_bounds_the_input_is_said_where_the_wait_is_notable() -> None:
    rates = Rates()
    assert rates.input_bound is None
    waited = InputWait(files=0.01, preparing=0.03)
    rates.take(A, Progress(phase="training", step_s=1.0, input_wait=waited), now=1.0)
    assert (rates.input_wait, rates.input_bound) == (pytest.approx(0.04), None)
    rates.take(B, Progress(phase="training", step_s=1.0, input_wait=InputWait(files=0.2)), now=1.0)
    assert (rates.input_wait, rates.input_bound) == (pytest.approx(0.12), "files")


def test_staleness_is_the_mean_over_workers_that_train() -> None:
    rates = Rates()
    assert rates.staleness is None
    rates.take(A, Progress(phase="training", samples=1, staleness=3.0), now=1.0)
    rates.take(B, Progress(phase="training", samples=1, staleness=1.0), now=1.0)
    assert rates.staleness == 2.0
    rates.take(B, Progress(phase="done", samples=1, staleness=1.0), now=2.0)
    assert rates.staleness == 3.0
    rates.reset(0)
    assert rates.staleness is None


def test_the_pace_is_of_the_last_minutes_and_begins_anew_with_a_generation() -> None:
    rates = Rates()
    assert rates.steps_per_s(0.0) == 0
    for second in range(400):
        rates.take(A, progress(second, step=100 * min(second, 200) + max(0, second - 200)), now=float(second))
    assert rates.steps_per_s(399.0) == pytest.approx(1.0)
    rates.reset(7)
    assert rates.steps_per_s(400.0) == 0


def test_the_rate_of_the_training_is_known_after_a_long_export() -> None:
    rates = Rates()
    for second in range(60):
        rates.take(A, progress(100 * min(second, 3)), now=float(second))
    assert (rates.samples_per_s(60.0), rates.last_samples_per_s) == (0, 100)

"""How long a profile lasts."""

import itertools
import os

import pytest

from afo.protocol.train_task import Progress
from afo.train import profiler
from afo.train.progress import ProgressPipe

pytestmark = pytest.mark.tensorflow


def test_a_profile_lasts_until_a_whole_step_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_POLL_S", 0.001)
    saving = itertools.chain([7] * 20, itertools.count(8))
    seconds, steps = profiler.last(0.001, lambda: next(saving))
    assert steps is not None
    assert steps >= 2
    assert seconds >= 0.001


def test_it_does_not_wait_for_a_step_for_ever_nor_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_POLL_S", 0.001)
    monkeypatch.setattr(profiler, "_LONGER_S", 0.01)
    assert profiler.last(0.001, lambda: 7)[1] == 0
    assert profiler.last(0.001, None)[1] is None


def test_steps_are_counted_in_reports_that_are_dropped_too() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as told:
        pipe = ProgressPipe(write)
        for samples in (0, 32, 32, 64, 96):  # 32 twice: a wait for a batch
            pipe.report(Progress(phase="training", samples=samples))
        os.close(write)
        assert len(told.readlines()) == 1
    assert pipe.steps == 3

"""What a task says in its log."""

import logging

import pytest

from afo.logs import task_log
from afo.logs.task_log import ProgressLog, one_line
from afo.protocol.train_task import Progress


def test_phases_and_every_so_often_numbers(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, "afo.task")
    clock = [100.0]
    monkeypatch.setattr(task_log.time, "monotonic", lambda: clock[0])
    log = ProgressLog()
    for seconds, progress in (
        (0, Progress(phase="starting")),
        (1, Progress(phase="training")),
        (20, Progress(phase="training", step=900, samples=9000, loss=0.5)),
        (11, Progress(phase="training", step=1200, samples=12_400, loss=0.25)),
        (40, Progress(phase="training", step=1200, samples=12_400, loss=0.25, step_s=40.0)),
        (10, Progress(phase="done", step=1300, samples=13_000, loss=0.2)),
    ):
        clock[0] += seconds
        log.take(progress)
    assert caplog.messages == [
        "starting",
        "training",
        "training: step 1,200, loss 0.2500, 400 samples/s",
        "done: step 1,300, loss 0.2000, 12 samples/s",
    ], "a task that waits says nothing again and again"


def test_a_name_stays_within_its_line() -> None:
    assert one_line("part\n2026 ERROR forged\x1b[2J\u202e") == "part 2026 ERROR forged"

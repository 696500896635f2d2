"""A job's log folded into a job of bounded size, whatever the log holds."""

from collections.abc import Iterable

import pytest

from afo.events import types as ev
from afo.events.event_log import Record
from afo_history_server.model import history_fold
from afo_history_server.model.history_fold import HistoryFold
from afo_history_server.model.job_history import JobHistory
from job_writer import T0, task_id


def folded(*events: ev.AnyEvent) -> HistoryFold:
    fold = HistoryFold(JobHistory(job_id="local_1_1"))
    take(fold, events)
    return fold


def take(fold: HistoryFold, events: Iterable[ev.AnyEvent]) -> None:
    for seq, event in enumerate(events, 1):
        fold.take(Record(seq=seq, am_attempt=1, incarnation=1, time=T0 + seq, event=event))


def requested(number: int) -> list[ev.AnyEvent]:
    return [ev.ContainerRequested(task=task_id("worker", index), memory=1, vcores=1) for index in range(number)]


def use(*indices: int) -> ev.TasksUsed:
    uses = (ev.TaskUse(task=task_id("worker", index), rss=1, peak_rss=2, cpu_s=3.0) for index in indices)
    return ev.TasksUsed(tasks=tuple(uses))


def test_attempts_beyond_a_bound_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_fold, "MAX_ATTEMPTS", 3)
    later = [ev.TaskEnded(task=task_id("worker", 4), cause="node_lost", code=None, message="")]
    others = [ev.TaskAtWork(task=task_id("worker", index), generation=1) for index in range(9)]
    job = folded(*requested(5), use(*range(9)), *later, *others).history()
    assert [attempt.index for attempt in job.attempts] == [0, 1, 2]
    assert [attempt.peak_rss for attempt in job.attempts] == [2, 2, 2]
    assert (job.attempts_left_out, job.outages, job.restarts) == (2, (), ())


def test_the_use_of_so_many_attempts_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_fold, "KEPT_USES", 2)
    job = folded(*requested(3), use(0, 1, 2), use(0, 1, 2)).history()
    assert [(len(attempt.use), attempt.peak_rss) for attempt in job.attempts] == [(2, 2), (2, 2), (0, 2)]


def test_last_lines_are_kept_of_the_first_attempt_and_of_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_fold, "KEPT_TAILS", 3)
    ends = [
        ev.TaskEnded(task=task_id("worker", index), cause="killed", code=9, message="m", tail=f"{index}")
        for index in (0, 1, 2, 1, 3, 4)
    ]
    assert [attempt.tail for attempt in folded(*ends).history().attempts] == ["0", "", "", "3", "4"]


def test_no_text_of_an_event_is_kept_whole() -> None:
    long, task = "x" * 100_000, task_id("worker")
    numbers = {f"{number}": 1.0 for number in range(10_000)}
    job = folded(
        ev.ProcessEnded(task=task, cause=long, code=1, message=long, tail=f"{long}end"),
        ev.GenerationEnded(generation=1, reason=long, manifest=long),
        ev.VariablesReady(task=task, generation=1, restored="", step=0, passed_over=(long, long)),
        ev.CheckpointWritten(task=task, generation=1, step=1, manifest=long, positions=(), final=False),
        ev.Evaluated(task=task, step=1, manifest=long, metrics=numbers, final=False),
    ).history()
    [attempt] = job.attempts
    assert (len(attempt.message), len(attempt.tail), attempt.tail[-3:]) == (8000, 8000, "end")
    assert {len(restart.why) for restart in (*job.restarts, *job.returns)} == {8000}
    assert [len(checkpoint.manifest) for checkpoint in job.checkpoints] == [8000]
    assert [len(each.metrics) for each in (*job.evaluations, *job.metric_curve)] == [256, 256]


def test_nothing_is_made_anew_while_nothing_comes() -> None:
    fold = folded(*requested(2))
    before = fold.history()
    assert fold.history() is before
    take(fold, requested(3))
    assert len(fold.history().attempts) == 3

"""Passes over training files: their sums, and a bound on those that are told of one by one."""

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.protocol.input_file import InputFile
from afo_history_server.model import data_fold
from afo_history_server.model.data_fold import DataFold
from job_writer import task_id


def done(split: int, epoch: int, count: int) -> ev.SplitDone:
    return ev.SplitDone(
        task=task_id("worker"), split=split, epoch=epoch, count=count, xor=0, bad=1, first_bad="x" * 9999
    )


def saved(manifest: str, *positions: tuple[int, int, int, int]) -> ev.CheckpointWritten:
    return ev.CheckpointWritten(
        task=task_id("chief"), generation=1, step=1, manifest=manifest, positions=positions, final=False
    )


def back(manifest: str) -> ev.GenerationEnded:
    return ev.GenerationEnded(generation=1, reason="", manifest=manifest)


def sums(fold: DataFold) -> tuple[int, int, int, int]:
    found = fold.progress()
    return found.passes, found.records, found.bad, found.undone


def test_sums_follow_what_is_done_undone_and_done_again() -> None:
    fold = DataFold()
    for event in (done(0, 0, 10), done(1, 0, 20), saved("m", (0, 0, 10, 0), (1, 0, 5, 0)), done(0, 1, 7)):
        fold.take(event, 1.0)
    assert sums(fold) == (3, 37, 3, 0)
    fold.take(back("m"), 2.0)
    assert sums(fold) == (1, 10, 1, 27)
    for count in (20, 21):
        fold.take(done(1, 0, count), 3.0)
    assert sums(fold) == (2, 31, 2, 27)
    assert {split: len(progress.first_bad) for split, progress in fold.files().items()} == {0: 500, 1: 500}


def test_the_splits_are_named_by_the_first_event_or_by_others() -> None:
    started = ev.JobStarted(
        job_id="j", name="n", user="u", queue="q", runtime="local", afo_version="1", submitted=1.0, eval_files=(),
        epochs=3,
    )  # fmt: skip
    added = (
        ev.SplitsAdded(first=number, splits=(InputFile(name, 1, 1.0),), closed=number == 1)
        for number, name in enumerate("ab")
    )
    for story in ([replace(started, train_files=("a", "b"))], [started, *added]):
        fold = DataFold()
        for event in story:
            fold.take(event, 1.0)
        assert (list(fold.names()), fold.progress().files, fold.progress().epochs) == (["a", "b"], 2, 3)


@pytest.mark.parametrize(("bound", "value"), [("KEPT_NAMES", 3), ("KEPT_CHARACTERS", 7)])
def test_splits_beyond_a_bound_are_only_counted(bound: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_fold, bound, value)
    fold = DataFold()
    for first in (0, 2, 4, 5, 9):  # those from 9 on do not follow on the others
        fold.take(ev.SplitsAdded(first=first, splits=(InputFile("ab", 1, 1.0),) * 2, closed=False), 1.0)
    assert (list(fold.names()), fold.progress().files) == (["ab"] * 3, 6)


def test_passes_beyond_a_bound_are_only_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_fold, "KEPT_PASSES", 3)
    fold = DataFold()
    for split in range(10):
        fold.take(done(split, 0, 1), 1.0)
    assert (sums(fold), len(fold.files())) == ((10, 10, 10, 0), 3)
    fold.take(back(""), 2.0)
    assert (sums(fold), fold.files()) == ((7, 7, 7, 3), {})


def test_the_newest_manifests_with_so_many_positions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_fold, "KEPT_POSITIONS", 3)
    fold = DataFold()
    for event in (
        done(0, 0, 10),
        saved("old", (0, 0, 10, 0)),
        saved("new", *((split, 0, 10, 0) for split in range(3))),
    ):
        fold.take(event, 1.0)
    fold.take(back("new"), 2.0)
    assert sums(fold) == (1, 10, 1, 0)
    fold.take(back("old"), 3.0)
    assert sums(fold) == (0, 0, 0, 10), "it is not known any more"

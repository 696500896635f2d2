"""What is said of a model out of its events."""

from afo.events import types as ev
from afo.events.model_notes import Notes
from afo.rpc.messages import TaskId

WORKER = TaskId(role="worker", index=0, attempt=0)


def done(split: int, epoch: int, count: int, xor: int = 5, unread: int = 0) -> ev.SplitDone:
    return ev.SplitDone(task=WORKER, split=split, epoch=epoch, count=count, xor=xor, bad=unread, unread=unread)


def notes(*events: ev.AnyEvent) -> tuple[str, ...]:
    found = Notes()
    for event in events:
        found.take(event)
    return found.sentences


def test_passes_over_a_file_that_are_alike_are_no_news() -> None:
    assert notes(done(0, 0, 10), done(1, 0, 12, unread=1), done(0, 1, 10), done(1, 1, 12, unread=1)) == ()


def test_a_pass_that_applied_other_records_than_one_before_is_told() -> None:
    (told,) = notes(done(9, 0, 1000), done(9, 1, 1500))
    assert told.startswith("a pass over a file applied other records than an earlier one (split 9 in epoch 2, 1,500 re")
    (told,) = notes(done(9, 0, 1000), done(9, 1, 1000, xor=6), done(9, 2, 1000), done(9, 3, 900, unread=2))
    assert told.startswith("2 passes over files applied other records than an earlier one (split 9 in epoch 2, 1,000 r")


def exported(version: int, step: int, seconds: float | None) -> ev.VersionExported:
    return ev.VersionExported(
        task=WORKER, version=version, parent=None, step=step, manifest="m", bytes=3 << 19, seconds=seconds
    )


def test_versions_are_told_by_their_number_and_the_last_one_with_what_is_known_of_it() -> None:
    first, second = exported(1764403200, 3200, 2.54), exported(1764403230, 3230, None)
    assert notes(first) == ("one version is exported: 1764403200 of step 3,200, 1.5 MiB in 2.5 s",)
    assert notes(first, second) == ("2 versions are exported, the last one: 1764403230 of step 3,230, 1.5 MiB",)

"""The list of splits: what adds to it, what does not fit, and how a long one is cut into events."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.events import types as ev
from afo.events.split_list import SplitList, events_of, names_of
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange
from job_writer import task_id


def files(*urls: str) -> tuple[InputFile, ...]:
    return tuple(InputFile(url, 7, 1.0) for url in urls)


def added(first: int, *urls: str, closed: bool = False) -> ev.SplitsAdded:
    return ev.SplitsAdded(first=first, splits=files(*urls), closed=closed)


def started(train_files: tuple[str, ...] | None = None) -> ev.JobStarted:
    return ev.JobStarted(
        job_id="j", name="n", user="u", queue="q", runtime="local", afo_version="1", submitted=1.0, eval_files=(),
        epochs=1, train_files=train_files,
    )  # fmt: skip


def leased(split: int) -> ev.SplitLeased:
    return ev.SplitLeased(task=task_id("worker"), split=split, epoch=0, resume=False)


def taken(*events: ev.AnyEvent) -> SplitList:
    splits = SplitList()
    for event in events:
        splits.take(event)
    return splits


def test_events_add_to_the_list_until_it_is_closed() -> None:
    splits = taken(started(), added(0, "a", "b"), leased(1), added(2, "c"))
    assert (splits.number, splits.closed, splits.problem) == (3, False, "")
    assert splits.take(added(3, closed=True))
    assert (splits.number, splits.closed, splits.problem) == (3, True, "")


def test_until_version_4_the_first_event_held_the_whole_list() -> None:
    for names in (("a", "b:0+5"), ()):
        splits = taken(started(names))
        assert (splits.number, splits.closed, names_of(started(names))) == (len(names), True, names)


def test_a_split_is_called_as_its_part_of_a_file() -> None:
    part = ev.SplitsAdded(first=0, splits=(InputFile("hdfs:///a", 9, 1.0, ByteRange(4, 9)), *files("b")), closed=True)
    assert names_of(part) == ["hdfs:///a:4+5", "b"]
    assert msgspec.json.decode(msgspec.json.encode(part), type=ev.SplitsAdded) == part


@pytest.mark.parametrize(
    ("events", "words"),
    [((added(0, "a"), added(2, "c")), "from number 2 on, and the list of splits has 1: some are missing"),
     ((added(0, "a"), added(0, "a")), "from number 0 on, and the list of splits has 1: some would be there twice"),
     ((added(-1, "a"),), "from number -1 on, and the list of splits has 0: some would be there twice"),
     ((added(0, "a", closed=True), added(1, "b")), "from number 1 on, and the list of splits was closed with 1"),
     ((started(("a",)), added(1, "b")), "from number 1 on, and the list of splits was closed with 1"),
     ((started(("a",)), started(("a",))), "from number 0 on, and the list of splits was closed with 1"),
     ((started(), leased(0)), "split 0 is read, and the list of splits has 0"),
     ((added(0, "a"), leased(-1)), "split -1 is read, and the list of splits has 1")],
)  # fmt: skip
def test_what_does_not_fit_changes_nothing_and_is_told_once(events: tuple[ev.AnyEvent, ...], words: str) -> None:
    before, after = taken(*events[:-1]), taken(*events)
    assert (after.number, after.closed, before.problem) == (before.number, before.closed, "")
    assert after.problem.endswith(words)
    after.take(leased(99))
    assert after.problem.endswith(words)


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(0, 5), st.booleans(), st.integers(1, 400))
def test_a_list_is_cut_into_events_of_bounded_size(urls: list[str], first: int, closed: bool, most: int) -> None:
    splits = files(*urls)
    events = list(events_of(first, splits, closed=closed, most=most))
    assert tuple(split for event in events for split in event.splits) == splits
    number = first
    for event in events:
        assert event.first == number
        assert event.splits or (closed and not splits)
        assert len(event.splits) <= 1 or sum(len(msgspec.json.encode(split)) for split in event.splits) <= most
        number += len(event.splits)
    assert [event.closed for event in events] == [False] * (len(events) - 1) + [closed] * bool(events)
    assert bool(events) == bool(splits or closed)

"""The list of splits as the Application Master's events make it: at its start, after a torn one, while the job runs."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from afo.errors import ProtocolError
from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Timeouts
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.core.core import Core
from afo_am.state import commands as c
from fake_cluster import FakeCluster, make_config

STARTED = ev.AmStarted(am_attempt=1, incarnation=1, address="a:1", host="a", pid=1)
Make = Callable[..., FakeCluster]


def start(config: AmConfig, *earlier: ev.AnyEvent, event_bytes: int = 1 << 20) -> list[Any]:
    """What a start of the AM adds to the events of an earlier one."""
    core = Core(config, now=0.0)
    core._discovery.event_bytes = event_bytes
    for event in earlier:
        core.replay(event, 1.0)
    return core.start(STARTED, "local_1_0001", now=0.0, wall=1.0).events


def added(events: list[Any]) -> list[ev.SplitsAdded]:
    return [event for event in events if isinstance(event, ev.SplitsAdded)]


def open_config(begun: int, files: int = 6, **job: object) -> AmConfig:
    config = make_config(files=files, **job)  # type: ignore[arg-type]
    return replace(config, train_files=config.train_files[:begun], train_closed=False)


def test_a_start_names_all_splits_and_another_none() -> None:
    config = make_config(files=6)
    events = start(config)
    assert added(events) == [ev.SplitsAdded(first=0, splits=tuple(config.splits), closed=True)]
    assert added(start(config, *events)) == []


def test_a_job_without_training_files_has_a_closed_list() -> None:
    assert added(start(make_config(files=0))) == [ev.SplitsAdded(first=0, splits=(), closed=True)]


def test_a_start_goes_on_where_an_earlier_one_ended_in_the_middle_of_the_list() -> None:
    config = make_config(files=6)
    whole = start(config, event_bytes=100)
    assert len(added(whole)) > 3
    for kept in range(1, len(added(whole)) + 2):
        events = [*whole[:kept], *start(config, *whole[:kept])]
        assert [split for event in added(events) for split in event.splits] == config.splits
        assert [event.closed for event in added(events)].count(True) == 1


def test_a_log_of_version_4_names_them_in_its_first_event(make_cluster: Make) -> None:
    cluster = make_cluster()
    old = [
        replace(event, train_files=tuple(split.name for split in cluster.config.splits))
        if isinstance(event, ev.JobStarted) else event
        for event, _ in cluster.log if not isinstance(event, ev.SplitsAdded)
    ]  # fmt: skip
    assert added(start(cluster.config, *old)) == []
    cluster.log = [(event, 1000.0) for event in old]
    cluster.start_am()
    assert cluster.run() == "SUCCEEDED"


def test_splits_come_while_the_job_runs(make_cluster: Make) -> None:
    rest = make_config(files=6).splits
    cluster = make_cluster(open_config(1))

    def look(cluster: FakeCluster, turn: int) -> None:
        known = cluster.core.state.splits.number
        if turn % 20 == 19 and known < 6:
            cluster.tell(c.SplitsFound(0, tuple(rest[: known + 1]), closed=False))
            cluster.start_am()
        elif turn == 150:
            assert cluster.finished is None
            assert cluster.core.state.splits.done == 6, "one epoch, and no second one before the list is closed"
            cluster.tell(c.SplitsFound(6, (), closed=True))

    assert cluster.run(each=look) == "SUCCEEDED"
    assert len(cluster.events(ev.SplitDone)) >= 12
    assert cluster.core.state.files == rest


def test_what_cannot_be_added_is_refused(make_cluster: Make) -> None:
    rest = tuple(make_config(files=6).splits)
    cluster = make_cluster(open_config(2))
    with pytest.raises(ProtocolError, match="splits from number 3 on were found, and the job has 2"):
        cluster.tell(c.SplitsFound(3, rest[3:], closed=False))
    for _ in range(2):
        cluster.tell(c.SplitsFound(1, rest[1:3], closed=True))
    assert [(event.first, len(event.splits)) for event in added(cluster.events(ev.SplitsAdded))] == [(0, 2), (2, 1)]
    with pytest.raises(ProtocolError, match="3 splits were found after the list was closed with 3"):
        cluster.tell(c.SplitsFound(0, rest, closed=True))


def test_a_worker_waits_for_splits_that_may_come(make_cluster: Make) -> None:
    cluster = make_cluster(open_config(0, workers=1))
    while not cluster.core.state.ready:
        cluster.turn()
    [worker] = cluster.live("worker")

    def ask() -> m.SplitReply:
        reply = cluster.tell(m.SplitRequest(task=worker.id, generation=worker.generation))
        assert isinstance(reply, m.SplitReply)
        return reply

    assert ask().state == "wait"
    cluster.tell(c.SplitsFound(0, (), closed=True))
    assert ask().state == "end"


@pytest.mark.parametrize("closed", [False, True])
def test_a_job_that_has_nothing_to_read_does_not_stand_still(make_cluster: Make, closed: bool) -> None:
    config = open_config(1, workers=1, timeouts=Timeouts(stall=Duration(60)))
    cluster = make_cluster(replace(config, train_closed=closed))
    cluster.progress = lambda child: None  # type: ignore[assignment,method-assign,return-value]
    while not cluster.core.state.splits.done:
        cluster.turn()
    if closed:
        cluster._work = lambda child: None  # type: ignore[method-assign]
    for _ in range(200):
        cluster.turn()
    assert cluster.core.state.verdict_cause == ("stalled" if closed else "")


def test_a_generation_keeps_the_number_of_splits_that_it_started_with(make_cluster: Make) -> None:
    rest = tuple(make_config(files=6).splits)
    cluster = make_cluster(open_config(2))
    while not cluster.core.state.ready:
        cluster.turn()
    cluster.tell(c.SplitsFound(0, rest, closed=False))
    cluster.turn()
    assert {child.directive.splits_at_start for child in cluster.live("ps", "worker") if child.directive} == {2}
    cluster.end_container(cluster.live("ps")[0].handle)
    while cluster.core.state.generation == 1 or not cluster.core.state.ready:
        cluster.turn()
    cluster.turn()
    assert {child.directive.splits_at_start for child in cluster.live("ps", "worker") if child.directive} == {6}

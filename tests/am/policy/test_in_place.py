"""Processes of a model that fail and start anew in their containers."""

import math
from collections.abc import Callable

import pytest

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Backoff, Restart
from afo.rpc import messages as m
from afo_am.policy.lifecycle import MAX_IN_PLACE
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]


def started(cluster: FakeCluster) -> FakeCluster:
    while not all(child.running for child in cluster.live()) or len(cluster.live()) < 5:
        cluster.turn()
    return cluster


def child(cluster: FakeCluster, name: str) -> FakeTask:
    (found,) = [each for each in cluster.live() if str(each.id) == name]
    return found


@pytest.mark.parametrize("name", ["worker:0", "worker:1", "ps:1", "evaluator:0"])
def test_no_container_is_asked_for(make_cluster: Make, name: str) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    containers = set(cluster.containers)
    cluster.fail(child(cluster, name), "segmentation_fault", -11)
    assert cluster.run() == "SUCCEEDED"
    assert set(cluster.containers) == containers
    assert cluster.events(ev.TaskEnded) == [] or {end.cause for end in cluster.events(ev.TaskEnded)} <= {
        "succeeded", "ended_with_job",
    }  # fmt: skip
    assert [str(end.task) for end in cluster.events(ev.ProcessEnded)] == [name]
    assert len(cluster.events(ev.GenerationEnded)) == (name == "ps:1")
    assert set(cluster.model.applied.values()) == {1}


@pytest.mark.parametrize("cause", ["out_of_memory", "disk_full", "illegal_instruction", "port_in_use"])
def test_what_needs_another_container_gets_one(make_cluster: Make, cause: str) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    cluster.fail(child(cluster, "worker:1"), cause, 1)
    assert cluster.run() == "SUCCEEDED"
    assert cluster.events(ev.ProcessEnded) == []
    assert [str(end.task) for end in cluster.events(ev.TaskEnded) if end.cause == cause] == ["worker:1"]


def test_after_some_starts_in_one_container_it_is_another_one(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=100)))
    for attempt in (0, 1):
        for _ in range(MAX_IN_PLACE + 1):
            while not child(cluster, "worker:1").running or child(cluster, "worker:1").id.attempt < attempt:
                cluster.turn()
            cluster.fail(child(cluster, "worker:1"), "killed_by_signal", -9)
        while not [each for each in cluster.live("worker") if each.id.index == 1]:
            cluster.turn()
    assert len(cluster.events(ev.ProcessEnded)) == 2 * MAX_IN_PLACE
    assert cluster.run() == "SUCCEEDED"


def test_an_end_that_is_told_twice_counts_once(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    worker = child(cluster, "worker:1")
    cluster.fail(worker, "segmentation_fault", -11)
    again = m.ExitReport(
        task=worker.id,
        generation=worker.generation,
        code=-11,
        cause="segmentation_fault",
        tail="",
        stays=True,
        number=1,
    )
    reply = cluster.tell(again)
    assert reply == m.ExitReply(stays=True)
    assert len(cluster.events(ev.ProcessEnded)) == 1
    assert cluster.run() == "SUCCEEDED"


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize(("told", "kept"), [(41.25, 41.25), (-1.0, 0.0), (math.nan, 0.0), (math.inf, 86_400.0)])
def test_how_long_ago_it_ended_is_written_down(make_cluster: Make, stays: bool, told: float, kept: float) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    worker = child(cluster, "worker:1")
    report = m.ExitReport(
        task=worker.id, generation=worker.generation, code=-11, cause="segmentation_fault", tail="", stays=stays,
        number=int(stays), idle_s=told,
    )  # fmt: skip
    cluster.tell(report)
    (ended,) = cluster.events(ev.ProcessEnded if stays else ev.TaskEnded)
    assert isinstance(ended, ev.ProcessEnded | ev.TaskEnded)
    assert (str(ended.task), ended.idle_s) == ("worker:1", kept)


def test_the_pause_is_kept_in_place_too(make_cluster: Make) -> None:
    backoff = Backoff(initial=Duration(20), max=Duration(20))
    cluster = started(make_cluster(make_config(files=100, restart=Restart(backoff=backoff))))
    pauses = []
    for _ in range(2):
        cluster.fail(child(cluster, "worker:1"), "killed_by_signal", -9)
        began = cluster.time
        while not child(cluster, "worker:1").running:
            cluster.turn()
        pauses.append(cluster.time - began)
    assert pauses[0] <= 2
    assert 14 <= pauses[1] <= 27


def test_a_budget_that_is_spent_in_place_fails_the_job(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=100)))

    def crash(cluster: FakeCluster, turn: int) -> None:
        for each in cluster.live("worker"):
            if each.running and each.id.index == 1:
                cluster.fail(each, "segmentation_fault", -11)

    assert cluster.run(each=crash) == "FAILED"
    assert cluster.finished is not None
    assert "its restart budget is spent: 5 in" in cluster.finished.diagnostics


def test_a_restarted_master_calls_for_the_start_that_is_due(make_cluster: Make) -> None:
    cluster = started(make_cluster(make_config(files=30)))
    cluster.fail(child(cluster, "worker:1"), "killed_by_signal", -9)
    cluster.start_am()
    while not child(cluster, "worker:1").running:
        cluster.turn()
    assert cluster.run() == "SUCCEEDED"
    assert len(cluster.containers) == 5

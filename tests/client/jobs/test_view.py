"""What the client makes of the event log is what the Application Master says."""

import random

import pytest

from afo.events import event_log
from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Timeouts
from afo_am.engine.status import status_of
from afo_client.jobs.view import ViewFold, from_status
from fake_cluster import FakeCluster, make_config


def disturb(cluster: FakeCluster, chaos: random.Random) -> None:
    """Some containers are lost; for a while there are no new ones, and a parameter server is among the lost."""
    scarce, servers = 1040 <= cluster.time < 1090, cluster.live("ps")
    if cluster.time == 1041 and servers:
        cluster.end_container(servers[0].handle)
    elif not scarce and chaos.random() < 0.1 and cluster.live():
        cluster.end_container(chaos.choice(cluster.live()).handle)
    cluster.allocate = (lambda: None) if scarce else lambda: FakeCluster.allocate(cluster)  # type: ignore[method-assign]


def test_the_failure_is_the_process_that_failed_and_not_the_end_of_its_container() -> None:
    cluster = FakeCluster(make_config(files=50))

    def crash(cluster: FakeCluster, turn: int) -> None:
        for child in [each for each in cluster.live("worker") if each.running and each.id.index == 1]:
            cluster.fail(child, "user_exception", 1, f"Traceback of process {child.ends}\nValueError: no")

    assert cluster.run(each=crash) == "FAILED"
    log = ViewFold("local_1_0001")
    log.take(
        event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=time, event=event)
        for seq, (event, time) in enumerate(cluster.log)
    )
    assert log.view.failure is not None
    assert (str(log.view.failure.task), log.view.failure.cause) == ("worker:1", "user_exception")
    assert log.view.failure.tail == "Traceback of process 1\nValueError: no"


@pytest.mark.parametrize("seed", range(6))
def test_restarts_are_counted_alike_and_waits_are_none(seed: int) -> None:
    cluster, chaos = (
        FakeCluster(make_config(files=200, timeouts=Timeouts(gang=Duration(15))), seed),
        random.Random(seed),
    )
    for _ in range(200):
        if cluster.finished is None:
            disturb(cluster, chaos)
            cluster.turn()
    log = ViewFold("local_1_0001")
    log.take(
        event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=time, event=event)
        for seq, (event, time) in enumerate(cluster.log)
    )
    told = from_status(status_of(cluster.core, "local_1_0001", cluster.time))
    assert told.restarts == log.view.restarts == cluster.core.state.restarts > 0
    waits = [event for event in cluster.events(ev.TaskEnded) if event.cause in ("gang_released", "request_unanswered")]  # type: ignore[union-attr]
    assert waits
    attempts = sum(task.task.attempt for task in log.view.tasks)
    assert told.restarts < attempts <= told.restarts + len(waits)

"""Ends that only a person can put an end to: for how long they are tried again, and what is told meanwhile."""

from collections.abc import Callable

import pytest

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Backoff, Restart, Timeouts
from afo.protocol.train_task import Progress
from afo_am.engine.status import status_of
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
FULL = ("disk_full", 1, "OSError: [Errno 28] No space left on device")


@pytest.fixture
def cluster(make_cluster: Make) -> FakeCluster:
    """A job with a minute for repairs."""
    restart, timeouts = Restart(backoff=Backoff(max=Duration(4))), Timeouts(repair=Duration(60), stall=Duration(30))
    return make_cluster(make_config(files=400, restart=restart, timeouts=timeouts))


@pytest.fixture
def stuck(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Its worker:1 trains nothing."""
    work = cluster._work
    monkeypatch.setattr(cluster, "_work", lambda child: child.id.index == 1 or work(child))
    cluster.speed["worker", 1] = 0.0
    return cluster


def running(cluster: FakeCluster, role: str, index: int) -> FakeTask:
    while not (found := [each for each in cluster.live(role) if each.running and each.id.index == index]):
        cluster.turn()
    return found[0]


def fill(cluster: FakeCluster, until: float, role: str = "worker", index: int = 1) -> int:
    """Ends the task with a full disk for as long; returns how often."""
    times = 0
    while cluster.time < until and cluster.finished is None:
        cluster.exit(running(cluster, role, index), *FULL)
        times += 1
        for _ in range(9):
            cluster.turn()
    return times


def message(cluster: FakeCluster) -> str:
    return status_of(cluster.core, "local_1_0001", cluster.time).message


def verdict(cluster: FakeCluster) -> ev.JobEnding:
    assert cluster.run() == "FAILED"
    (ending,) = cluster.events(ev.JobEnding)
    assert isinstance(ending, ev.JobEnding)
    return ending


def test_a_full_disk_is_tried_again_for_a_while_whatever_becomes_of_the_master(stuck: FakeCluster) -> None:
    cluster = stuck
    running(cluster, "worker", 1)
    times = fill(cluster, cluster.time + 30)
    since = "00:16 UTC"  # the cluster's clock begins 1,000 s after 1970
    assert message(cluster).startswith(
        f"worker:1 ended {times} times since {since}: disk_full on h; tried again until "
    )
    cluster.lose_am_container()
    assert f"worker:1 ended {times} times since {since}" in message(cluster), "another application attempt knows it"
    times += fill(cluster, cluster.time + 100)
    ending = verdict(cluster)
    assert (ending.cause, str(ending.first_task)) == ("disk_full", "worker:1")
    assert ending.diagnostics == (
        f"worker:1 on h: {FULL[2]}; it ended {times} times since {since}, and nobody repaired it within 1m "
        "(`timeouts.repair`). Free the disk of the machine; check quotas of the directories for checkpoints, summaries "
        "and exports."
    )


def test_progress_in_between_begins_the_time_anew(cluster: FakeCluster) -> None:
    running(cluster, "worker", 1)
    fill(cluster, cluster.time + 150)
    assert cluster.core.state.verdict == ""
    running(cluster, "worker", 1)
    for _ in range(9):
        cluster.turn()
    assert "disk_full" not in message(cluster)


def test_of_who_saves_only_a_checkpoint_is_progress(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = cluster.checkpoint
    monkeypatch.setattr(cluster, "checkpoint", lambda child, final: saves(child, final) if final else None)
    running(cluster, "worker", 0)
    fill(cluster, cluster.time + 100, index=0)
    assert verdict(cluster).cause == "disk_full"


def test_a_job_that_stands_still_for_that_fails_with_it(make_cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts = Timeouts(repair=Duration(60), stall=Duration(10), allocate=Duration(3600))
    cluster = make_cluster(make_config(workers=1, evaluator=False, files=400, timeouts=timeouts))
    while not cluster.core.state.ready:
        cluster.turn()
    cluster.exit(running(cluster, "worker", 0), *FULL)
    monkeypatch.setattr(cluster, "allocate", lambda: None)
    monkeypatch.setattr(cluster, "progress", lambda child: Progress(phase="serving"))
    for _ in range(50):
        cluster.turn()
    assert cluster.core.state.verdict == "", "there is time yet"
    ending = verdict(cluster)
    assert (ending.cause, str(ending.first_task)) == ("disk_full", "worker:0")
    assert "it ended once since" in ending.diagnostics

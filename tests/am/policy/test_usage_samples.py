"""What tasks use is written down now and then, by how many they are."""

from collections.abc import Callable

import pytest

from afo.events import types as ev
from afo.rpc import messages as m
from afo_am.policy import samples
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]
USAGE = m.Usage(rss=7 << 20, peak_rss=9 << 20, cpu_s=3.5)


def trained(make_cluster: Make, seconds: float, workers: int = 2) -> FakeCluster:
    """For so long; every Child says what it uses, one of them nothing."""
    cluster = make_cluster(make_config(workers=workers, files=3000))
    until = cluster.time + seconds
    while cluster.time < until:
        cluster.turn()
        for child in cluster.live():
            usage = m.Usage() if child.id.role == "ps" and child.id.index == 1 else USAGE
            cluster.tell(m.HeartbeatRequest(task=child.id, generation=1, process_alive=True, usage=usage))
    return cluster


def test_it_comes_early_and_then_once_a_minute(make_cluster: Make) -> None:
    cluster = trained(make_cluster, 20 + 3 * samples.USAGE_EVERY_S)
    events = cluster.events(ev.TasksUsed)
    assert 3 <= len(events) <= 4
    assert {str(use.task) for use in events[0].tasks} >= {"worker:0", "worker:1", "ps:0"}
    assert "ps:1" not in {str(use.task) for use in events[0].tasks}, "it has said nothing yet"
    assert {(use.rss, use.peak_rss, use.cpu_s) for use in events[0].tasks} == {(7 << 20, 9 << 20, 3.5)}


def test_more_tasks_come_more_seldom(make_cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "TASKS_PER_EVENT", 2)
    few = len(trained(make_cluster, 400, workers=2).events(ev.TasksUsed))
    many = len(trained(make_cluster, 400, workers=10).events(ev.TasksUsed))
    assert 1 <= many < few

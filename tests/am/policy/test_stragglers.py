"""A worker that is far slower than the others is replaced, but not for ever."""

from collections.abc import Callable

from msgspec.structs import replace

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Restart
from afo.job.fault_tolerance import Slow
from afo.protocol.am_config import AmConfig
from afo_am.policy.stragglers import MOST_PER_HOUR
from afo_am.runtime.base import ContainerInfo
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]
RULE = Slow(below=0.3, over=Duration(80))


def config(workers: int = 4, slow: Slow = RULE, **options: object) -> AmConfig:
    """A job of so many files that it does not end in these tests."""
    return make_config(workers=workers, files=3000, epochs=1, restart=Restart(slow=slow), **options)  # type: ignore[arg-type]


def turns(cluster: FakeCluster, count: int) -> None:
    for _ in range(count):
        cluster.turn()


def slow(cluster: FakeCluster) -> list[tuple[str, bool]]:
    """Workers found slow, and whether they were replaced."""
    events = [event for event in cluster.events(ev.TaskSlow) if isinstance(event, ev.TaskSlow)]
    return [(str(event.task), not event.stays) for event in events]


def ended(cluster: FakeCluster) -> list[ev.TaskEnded]:
    return [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]


def test_a_slow_worker_is_replaced_and_its_rate_said(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    cluster.speed["worker", 2] = 0.2
    turns(cluster, 75)
    assert slow(cluster) == []
    turns(cluster, 25)
    assert slow(cluster) == [("worker:2", True)]
    (end,) = ended(cluster)
    assert (str(end.task), end.cause) == ("worker:2", "slow")
    assert end.message.endswith(" samples/s in 80 s, the median of the others is 1 (`restart.slow`)")
    task = cluster.core.state.tasks["worker", 2]
    assert (task.id.attempt, task.faults, task.free_restarts) == (1, [], 1)
    cluster.speed.clear()
    turns(cluster, 200)
    assert slow(cluster) == [("worker:2", True)]


def test_one_that_comes_in_its_place_and_is_slow_too_stays(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    cluster.speed["worker", 2] = 0.2
    turns(cluster, 600)
    assert slow(cluster) == [("worker:2", True), ("worker:2", False)]
    last = cluster.events(ev.TaskSlow)[-1]
    assert isinstance(last, ev.TaskSlow)
    assert "its files, not its machine" in last.stays
    assert len(ended(cluster)) == 1


def test_one_at_a_time_and_so_many_an_hour(make_cluster: Make) -> None:
    cluster = make_cluster(config(workers=11))
    cluster.speed = {("worker", index): 0.05 + index / 100 for index in range(1, 6)}
    turns(cluster, 110)
    assert slow(cluster) == [("worker:1", True)]
    cluster.speed["worker", 1] = 1.0
    turns(cluster, 60)
    assert slow(cluster) == [("worker:1", True)]  # who came for it is not judged yet
    for _ in range(5):
        turns(cluster, 110)
        for task, _ in slow(cluster):
            cluster.speed["worker", int(task.partition(":")[2])] = 1.0
    found = slow(cluster)
    assert sum(replaced for _, replaced in found) == MOST_PER_HOUR
    assert not all(replaced for _, replaced in found)


def test_the_chief_is_never_replaced(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    cluster.speed["worker", 0] = 0.05
    turns(cluster, 300)
    assert slow(cluster) == []


def test_two_workers_are_not_compared(make_cluster: Make) -> None:
    cluster = make_cluster(config(workers=2))
    cluster.speed["worker", 1] = 0.05
    turns(cluster, 300)
    assert slow(cluster) == []


def test_where_all_are_slow_none_is(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    cluster.speed = {("worker", index): 0.1 for index in range(4)}
    turns(cluster, 300)
    assert slow(cluster) == []


def test_below_zero_turns_it_off(make_cluster: Make) -> None:
    cluster = make_cluster(config(slow=Slow(below=0.0)))
    cluster.speed["worker", 1] = 0.05
    turns(cluster, 300)
    assert slow(cluster) == []


def test_a_slow_minute_is_not_enough(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    for _ in range(5):
        cluster.speed["worker", 1] = 0.05
        turns(cluster, 40)
        cluster.speed["worker", 1] = 1.0
        turns(cluster, 40)
    assert slow(cluster) == []


def test_who_waits_for_input_is_not_slow(make_cluster: Make) -> None:
    """Three files for four workers: one always waits, the next epoch of a file comes after the one before."""
    made = make_config(workers=4, files=3, epochs=200, restart=Restart(slow=RULE))
    cluster = make_cluster(made)
    cluster.speed["worker", 1] = 0.05
    turns(cluster, 300)
    assert slow(cluster) == []


def test_who_stands_still_is_not_slow(make_cluster: Make) -> None:
    """That is what `timeouts.hang` is about, which takes its stacks first."""
    cluster = make_cluster(config())
    cluster.speed["worker", 1] = 0.0
    turns(cluster, 200)
    assert slow(cluster) == []


def test_its_host_is_avoided_by_this_worker(make_cluster: Make) -> None:
    cluster = make_cluster(replace(config(), runtime="yarn"))
    hosts = {"worker:2": iter(["bad", "bad", "good"])}

    def allocate() -> None:
        for handle, info in cluster.containers.items():
            if info.state == "requested":
                host = next(hosts.get(str(cluster.children[handle].id), iter(())), "h")
                cluster.containers[handle] = ContainerInfo(handle=handle, state="running", container="x", host=host)

    cluster.allocate = allocate  # type: ignore[method-assign]
    cluster.speed["worker", 2] = 0.2
    turns(cluster, 100)
    cluster.speed.clear()
    turns(cluster, 30)
    assert [(end.cause, str(end.task)) for end in ended(cluster)] == [("slow", "worker:2"), ("bad_host", "worker:2")]
    assert ended(cluster)[-1].message == "worker:2 was slow on bad before (`restart.slow`)"
    assert cluster.core.state.tasks["worker", 2].host == "good"


def test_after_a_restart_of_the_master_it_is_measured_anew(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    cluster.speed["worker", 2] = 0.2
    turns(cluster, 75)
    cluster.start_am()
    turns(cluster, 60)
    assert slow(cluster) == []
    turns(cluster, 50)
    assert slow(cluster) == [("worker:2", True)]
    cluster.start_am()
    turns(cluster, 200)
    assert slow(cluster) == [("worker:2", True), ("worker:2", False)]

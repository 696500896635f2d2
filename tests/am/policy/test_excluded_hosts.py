"""Machines that fail tasks are avoided, for a while and not for ever."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import HostBudget, Restart
from afo.protocol.am_config import AmConfig
from afo_am.policy.excluded_hosts import MAX_REFUSALS, is_avoided
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]
BAD = "bad-host"


def config(**host: object) -> AmConfig:
    return replace(make_config(files=60, restart=Restart(host=HostBudget(**host))), runtime="yarn")  # type: ignore[arg-type]


def put(cluster: FakeCluster, choose: Callable[[str, int], str]) -> None:
    """Containers run where `choose` says, by their task and attempt."""
    allocate = cluster.allocate

    def placed() -> None:
        before = {handle for handle, info in cluster.containers.items() if info.state == "running"}
        allocate()
        for handle, info in cluster.containers.items():
            if info.state == "running" and handle not in before:
                task = cluster.children[handle].id
                cluster.containers[handle] = replace(info, host=choose(str(task), task.attempt))

    cluster.allocate = placed  # type: ignore[method-assign]


def ends(cluster: FakeCluster) -> list[tuple[str, str]]:
    found = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    return [(str(end.task), end.cause) for end in found if end.cause not in ("succeeded", "ended_with_job")]


def crash(cluster: FakeCluster, turn: int) -> None:
    """Nothing that worker 1 does on that machine works."""
    for child in cluster.live():
        if child.running and cluster.containers[child.handle].host == BAD:
            cluster.exit(child, "illegal_instruction", -4)


def test_a_task_goes_to_another_machine(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    put(cluster, lambda task, attempt: BAD if task == "worker:1" and attempt < 4 else "good-host")
    assert cluster.run(each=crash) == "SUCCEEDED"
    assert ends(cluster) == [
        ("worker:1", "illegal_instruction"), ("worker:1", "illegal_instruction"),
        ("worker:1", "bad_host"), ("worker:1", "bad_host"),
    ]  # fmt: skip
    (said,) = {e.message for e in cluster.events(ev.TaskEnded) if isinstance(e, ev.TaskEnded) and e.cause == "bad_host"}
    assert said == "bad-host failed more than 1 tasks in 1h (`restart.host`)"


def test_where_there_is_no_other_machine_it_is_taken_after_all(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    put(cluster, lambda task, attempt: BAD)

    def crash_twice(cluster: FakeCluster, turn: int) -> None:
        if sum(cause == "disk_full" for _, cause in ends(cluster)) < 2:
            for child in [each for each in cluster.live("worker") if each.running][:1]:
                cluster.exit(child, "disk_full", 1)

    assert cluster.run(each=crash_twice) == "SUCCEEDED"
    refused = [task for task, cause in ends(cluster) if cause == "bad_host"]
    assert max(refused.count(task) for task in set(refused)) == MAX_REFUSALS


@pytest.mark.parametrize("runtime", ["local", "yarn"])
def test_the_local_runtime_has_one_machine(make_cluster: Make, runtime: str) -> None:
    cluster = make_cluster(replace(config(max=0), runtime=runtime))
    put(cluster, lambda task, attempt: BAD if task == "worker:1" and attempt < 3 else "good-host")

    def crash_once(cluster: FakeCluster, turn: int) -> None:
        if not ends(cluster):
            crash(cluster, turn)

    assert cluster.run(each=crash_once) == "SUCCEEDED"
    assert (("worker:1", "bad_host") in ends(cluster)) == (runtime == "yarn")


def test_faults_are_forgotten_and_what_the_user_did_is_no_fault_of_a_host(make_cluster: Make) -> None:
    cluster = make_cluster(config(max=0, per=Duration(100)))
    put(cluster, lambda task, attempt: BAD if task == "worker:1" else "good-host")
    while not all(child.running for child in cluster.live()) or len(cluster.live()) < 5:
        cluster.turn()
    (worker,) = [child for child in cluster.live() if str(child.id) == "worker:1"]
    cluster.exit(worker, "segmentation_fault", -11)
    assert not is_avoided(cluster.core.state, BAD, cluster.time)
    while not (again := [each for each in cluster.live() if str(each.id) == "worker:1" and each.running]):
        cluster.turn()
    cluster.exit(again[0], "disk_full", 1)
    assert is_avoided(cluster.core.state, BAD, cluster.time)
    assert not is_avoided(cluster.core.state, BAD, cluster.time + 101)
    assert not is_avoided(cluster.core.state, "good-host", cluster.time)
    assert cluster.run() == "SUCCEEDED"

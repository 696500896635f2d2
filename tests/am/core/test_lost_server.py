"""`engine: psplus`: processes of chief and workers stay when a parameter server is lost, and are told where it is."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.errors import GenerationOver, PermissionDenied, ProtocolError
from afo.events import types as ev
from afo.job import Checkpoint
from afo.protocol.am_config import AmConfig
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
FILES = 40


def config(on_ps_loss: str = "rollback", **settings: object) -> AmConfig:
    checkpoint = Checkpoint(on_ps_loss=on_ps_loss)  # type: ignore[arg-type]
    return make_config(
        **{"workers": 3, "ps": 3, "files": FILES, "checkpoint": checkpoint, "engine": "psplus", **settings}  # type: ignore[arg-type]
    )


def until_saved(cluster: FakeCluster) -> FakeCluster:
    """Something is saved, and every worker holds a file or has applied one after it."""
    while not cluster.core.state.newest_manifest or len(cluster.core.state.splits.leases) < 2:
        cluster.turn()
    return cluster


def lose_server(cluster: FakeCluster, index: int = 1) -> None:
    (server,) = [child for child in cluster.live("ps") if child.id.index == index]
    cluster.fail(server, "killed_by_signal", -9)


def until_ready(cluster: FakeCluster) -> None:
    while not cluster.core.state.ready:
        cluster.turn()


def a_worker(cluster: FakeCluster) -> FakeTask:
    """One that is not the chief."""
    return next(child for child in cluster.live("worker") if child.id != cluster.core.state.chief.id)


def every_split_once(cluster: FakeCluster) -> None:
    assert cluster.run() == "SUCCEEDED"
    assert cluster.model.applied == dict.fromkeys(((s, e) for s in range(FILES) for e in range(2)), 1)


def ends_of_workers(cluster: FakeCluster) -> list[ev.AnyEvent]:
    ends = (*cluster.events(ev.TaskEnded), *cluster.events(ev.ProcessEnded))
    return [end for end in ends if end.task.role == "worker" and end.cause not in ("succeeded", "ended_with_job")]  # type: ignore[union-attr]


def beat(cluster: FakeCluster, child: FakeTask, generation: int, samples: int, told: int) -> m.Directive:
    """A heartbeat of its Child, which knows of generation `told`, with what its process says of itself."""
    progress = Progress(phase="training", generation=generation, samples=samples)
    reply = cluster.tell(m.HeartbeatRequest(task=child.id, generation=told, process_alive=True, progress=progress))
    assert isinstance(reply, m.Directive)
    return reply


@pytest.mark.parametrize("on_ps_loss", ["rollback", "partial"])
@pytest.mark.parametrize("in_place", [True, False])
def test_processes_go_over_into_the_next_generation(make_cluster: Make, on_ps_loss: str, *, in_place: bool) -> None:
    cluster = until_saved(make_cluster(config(on_ps_loss)))
    processes = {child.id: child.process for child in cluster.live("worker")}
    leases = len(cluster.core.state.splits.leases)
    if in_place:
        lose_server(cluster)
    else:
        cluster.end_container(next(child.handle for child in cluster.live("ps")))
        cluster.poll()
    assert (leases > 1, cluster.core.state.splits.leases) == (True, {}), "leases are given back"
    until_ready(cluster)
    for _ in range(3):
        cluster.turn()
    assert {child.id: child.process for child in cluster.live("worker")} == processes
    assert {child.joined for child in cluster.live("worker")} == {2}
    every_split_once(cluster)
    assert ends_of_workers(cluster) == []


def test_a_server_that_is_lost_while_another_one_comes_back(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config("partial")))
    processes = {child.id: child.process for child in cluster.live("worker")}
    for index in (1, 2):
        lose_server(cluster, index)
    until_ready(cluster)
    assert cluster.core.state.generation == 3
    assert {child.id: child.process for child in cluster.live("worker")} == processes
    every_split_once(cluster)
    assert ends_of_workers(cluster) == []


def test_a_worker_that_dies_while_servers_form_is_started_again_alone(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    lose_server(cluster)
    worker = a_worker(cluster)
    cluster.fail(worker, "killed_by_signal", -9)
    assert len(ends_of_workers(cluster)) == 1
    others = {child.id: child.process for child in cluster.live("worker") if child is not worker}
    every_split_once(cluster)
    assert len(ends_of_workers(cluster)) == 1
    assert len(cluster.events(ev.GenerationEnded)) == 1
    assert len(others) == 2


def test_nothing_of_the_ended_generation_is_taken(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config("partial")))
    (split, holder), *_ = cluster.core.state.splits.leases.items()
    epoch = cluster.core.state.splits.completed[split]
    chief = cluster.core.state.chief.id
    lose_server(cluster)
    late: list[m.Message] = [
        m.SplitAck(task=holder, generation=1, split=split, epoch=epoch, count=10 + split, xor=7 * split + epoch),
        m.SplitRequest(task=holder, generation=1, holding=(split,), epochs=(epoch,)),
        m.ReadyRequest(task=holder, generation=1),
        m.ReadyReport(task=chief, generation=1, restored="manifest-1"),
        m.SavingReport(task=chief, generation=1, directory="try-99"),
        m.CheckpointReport(task=chief, generation=1, step=99, manifest="manifest-99", positions=()),
    ]
    for ready in (False, True):
        if ready:
            until_ready(cluster)
        before = len(cluster.log)
        for message in late:
            with pytest.raises(GenerationOver, match="generation 1 has ended; now is 2"):
                cluster.tell(message)
        assert len(cluster.log) == before
    every_split_once(cluster)


def test_who_has_lost_the_servers_is_told_where_they_are(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    worker, before = a_worker(cluster).id, cluster.core.state.ps
    asking = m.ServersRequest(task=worker, known=1)
    assert cluster.tell(asking) == m.ServersReply(state="run", generation=1, ps=before, splits_at_start=FILES)
    lose_server(cluster)
    assert cluster.tell(asking) == m.ServersReply(state="wait", generation=2)
    until_ready(cluster)
    now = cluster.core.state.ps
    assert now[1] != before[1]
    assert cluster.tell(asking) == m.ServersReply(state="run", generation=2, ps=now, splits_at_start=FILES)
    with pytest.raises(ProtocolError, match="generation 3 has not begun; now is 2"):
        cluster.tell(replace(asking, known=3))
    with pytest.raises(PermissionDenied, match="evaluator:0 is no client"):
        cluster.tell(replace(asking, task=cluster.live("evaluator")[0].id))
    with pytest.raises(ProtocolError, match="attempt 7 of worker"):
        cluster.tell(replace(asking, task=replace(worker, attempt=7)))
    cluster.tell(m.KillRequest(user="bob"))
    with pytest.raises(ProtocolError, match="has ended"):
        cluster.tell(asking)


def test_a_server_that_is_lost_when_the_chief_is_done_ends_the_others_well(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    while not cluster.core.state.splits.finished:
        cluster.turn()
    chief = next(child for child in cluster.live("worker") if child.id == cluster.core.state.chief.id)
    cluster.checkpoint(chief, final=True)
    cluster.exit(chief, "succeeded", 0)
    last = cluster.live("worker")
    cluster.end_container(cluster.live("ps")[0].handle)
    reply = cluster.tell(m.ServersRequest(task=last[0].id, known=1))
    assert reply == m.ServersReply(state="end", generation=1)
    every_split_once(cluster)
    assert cluster.events(ev.GenerationEnded) == []


def test_work_counts_in_the_generation_that_the_process_is_in(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    worker = a_worker(cluster)
    lose_server(cluster)
    until_ready(cluster)
    works = len(cluster.events(ev.TaskAtWork))
    counted = cluster.core.rates.samples
    beat(cluster, worker, 1, 10**6, told=2)  # its process has heard of nothing yet
    assert len(cluster.events(ev.TaskAtWork)) == works
    assert cluster.core.rates.samples == counted
    beat(cluster, worker, 2, 0, told=2)
    assert len(cluster.events(ev.TaskAtWork)) == works
    beat(cluster, worker, 2, 5, told=1)  # its process has heard of it before its Child
    assert len(cluster.events(ev.TaskAtWork)) == works + 1
    assert cluster.core.rates.samples == counted + 5, "from 0 again"
    beat(cluster, worker, 2, 8, told=2)
    assert cluster.core.rates.samples == counted + 8


@pytest.mark.parametrize(("said", "told", "cause"), [(1, 2, "generation_lost"), (2, 1, "succeeded")])
def test_a_success_counts_in_the_generation_that_the_process_is_in(
    make_cluster: Make, said: int, told: int, cause: str
) -> None:
    cluster = until_saved(make_cluster(config()))
    worker = a_worker(cluster)
    lose_server(cluster)
    until_ready(cluster)
    done = Progress(phase="done", generation=said, samples=9)
    cluster.tell(m.ExitReport(task=worker.id, generation=told, code=0, cause="succeeded", tail="", progress=done))
    cluster.end_container(worker.handle)
    (end,) = [end for end in cluster.events(ev.TaskEnded) if end.task == worker.id]  # type: ignore[attr-defined]
    assert end.cause == cause  # type: ignore[attr-defined]
    every_split_once(cluster)


def test_a_restarted_master_keeps_them_too(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config()))
    processes = {child.id: child.process for child in cluster.live("worker")}
    lose_server(cluster)
    cluster.start_am()
    until_ready(cluster)
    cluster.start_am()
    assert {child.id: child.process for child in cluster.live("worker")} == processes
    every_split_once(cluster)
    assert ends_of_workers(cluster) == []


def test_tensorflows_workers_are_stopped_as_before(make_cluster: Make) -> None:
    cluster = until_saved(make_cluster(config(engine="tensorflow")))
    lose_server(cluster)
    directive = beat(cluster, a_worker(cluster), 0, 1, told=1)
    assert (directive.action, directive.generation, directive.since) == ("wait", 2, 0)

"""Messages that come when nobody expects them any more; `make sim` found each of these."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.errors import ProtocolError
from afo.events import types as ev
from afo.job import Job, RoleSpec
from afo.rpc import messages as m
from afo.rpc.wire import METHODS
from afo_am.state import commands as c
from afo_am.state.tasks import Stage
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]


def test_a_registration_that_comes_after_success_is_told_to_end(make_cluster: Make) -> None:
    cluster = make_cluster()
    for _ in range(6):
        cluster.turn()
    worker = cluster.live("worker")[1]
    registration = cluster._registration(worker)
    cluster.exit(worker, "succeeded", 0)
    reply = cluster.tell(registration)
    assert isinstance(reply, m.Directive)
    assert reply.action == "end"
    assert cluster.run() == "SUCCEEDED"


def test_no_generation_begins_after_the_verdict(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.turn()
    server = cluster.live("ps")[0]
    cluster.turn()
    cluster.end_container(server.handle)
    cluster.poll()
    cluster.tell(m.KillRequest(user="bob", reason=""))
    before = len(cluster.events(ev.GenerationStarted))
    for task in list(cluster.core.state.of_role("ps")):
        address = f"late:{task.id.index}"
        cluster.tell(m.HeartbeatRequest(task=task.id, generation=2, address=address, process_alive=False))
    assert len(cluster.events(ev.GenerationStarted)) == before
    assert cluster.run() == "KILLED"


def test_success_in_a_generation_that_was_lost_meanwhile_does_not_count(make_cluster: Make) -> None:
    base = make_config()
    job = Job(name="test", roles={"worker": RoleSpec(instances=3)}, program="train.py")
    cluster = make_cluster(replace(base, job=job, train_files=()))
    cluster.success_rate = 0.0
    while not all(child.running for child in cluster.live()) or len(cluster.live()) < 3:
        cluster.turn()
    first, second = cluster.live()[:2]
    cluster.fail(first, "killed_by_signal", -9)
    cluster.exit(second, "succeeded", 0)  # it had ended well before it heard that its generation is over
    cluster.success_rate = 0.2
    assert cluster.run() == "SUCCEEDED", "the next generation does not wait for its address"
    (late,) = [end for end in cluster.events(ev.TaskEnded) if isinstance(end, ev.TaskEnded) and end.task == second.id]
    assert late.cause == "generation_lost"


def test_a_final_checkpoint_that_is_reported_again_is_not_the_newest_again(make_cluster: Make) -> None:
    cluster = make_cluster()
    while not cluster.core.state.ready:
        cluster.turn()
    chief = cluster.live("worker")[0]
    assert chief.id == cluster.core.state.chief.id
    report = m.CheckpointReport(task=chief.id, generation=1, step=5, manifest="manifest-a", positions=(), final=True)
    cluster.tell(report)
    cluster.tell(replace(report, step=6, manifest="manifest-b"))
    cluster.tell(report)
    assert cluster.core.state.newest_manifest == "manifest-b"
    assert len(cluster.events(ev.CheckpointWritten)) == 2


def test_a_container_that_is_refused_ends_the_job_with_the_runtimes_words(make_cluster: Make) -> None:
    cluster = make_cluster()
    task = next(iter(cluster.core.state.of_role("ps"))).id
    cluster.tell(c.CommandFailed(task, "larger than every node"))
    assert cluster.run() == "FAILED"
    state = cluster.core.state
    assert (state.verdict_cause, state.diagnostics) == ("launch_failed", f"{task}: larger than every node")


def test_a_container_that_is_refused_after_the_verdict_blames_nobody(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.tell(m.KillRequest(user="bob", reason=""))
    task = next(iter(cluster.core.state.of_role("ps"))).id
    for _ in range(2):  # the second time that attempt is over
        cluster.tell(c.CommandFailed(task, "too large"))
    (ended,) = [end for end in cluster.events(ev.TaskEnded) if isinstance(end, ev.TaskEnded) and end.task == task]
    assert ended.cause == "ended_with_job"
    assert cluster.run() == "KILLED"


def ready_cluster(make_cluster: Make) -> tuple[FakeCluster, FakeTask]:
    """A job that trains, and a worker of it that is not its chief."""
    cluster = make_cluster()
    while not cluster.core.state.ready:
        cluster.turn()
    return cluster, next(worker for worker in cluster.live("worker") if worker.id != cluster.core.state.chief.id)


def test_an_attempt_that_has_not_registered_gets_no_file(make_cluster: Make) -> None:
    """It is the present one, of the present generation, and yet nobody may speak for it so far."""
    cluster, worker = ready_cluster(make_cluster)
    cluster.exit(worker, "killed_by_signal", -9)
    task = cluster.core.state.tasks["worker", worker.id.index]
    while task.stage is not Stage.REQUESTED:
        cluster.time += 1
        cluster.poll()
    assert (task.id.attempt, cluster.core.state.generation) == (worker.id.attempt + 1, 1)
    with pytest.raises(ProtocolError, match="has ended"):
        cluster.tell(m.SplitRequest(task=task.id, generation=1))
    assert task.id not in cluster.core.state.splits.leases.values()


def test_an_attempt_that_has_succeeded_gets_no_file(make_cluster: Make) -> None:
    cluster, worker = ready_cluster(make_cluster)
    cluster.exit(worker, "succeeded", 0)
    with pytest.raises(ProtocolError, match="has ended"):
        cluster.tell(m.SplitRequest(task=worker.id, generation=1))
    assert cluster.run() == "SUCCEEDED"


def test_a_container_for_an_attempt_that_is_over_is_ended(make_cluster: Make) -> None:
    cluster, worker = ready_cluster(make_cluster)
    task = cluster.core.state.tasks["worker", worker.id.index]
    while task.stage is not Stage.ENDED:  # the first attempt has a successor at once, a later one after a pause
        cluster.exit(next(child for child in cluster.live("worker") if child.id == task.id), "killed_by_signal", -9)
        while task.stage in (Stage.REQUESTED, Stage.ALLOCATED):
            cluster.turn()
    assert cluster.core.state.task(task.id) is None
    cluster.tell(c.ContainerPlaced(task.id, "late"))
    assert "late" in cluster.killed
    assert cluster.run() == "SUCCEEDED"


def test_every_method_of_the_protocol_reaches_the_core(make_cluster: Make) -> None:
    """But those that decide nothing: what is told of the job, and secrets, which no journal may hold."""
    known = set(make_cluster().core._handlers)
    assert {request for request, _ in METHODS.values()} - known == {m.StatusRequest, m.TokensRequest}

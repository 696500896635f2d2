"""Another number of workers while the job runs."""

import random
from collections.abc import Callable

import pytest

from afo.errors import NotFound, ProtocolError
from afo.events import types as ev
from afo.failures.causes import CAUSES
from afo.job import Elastic, Job, Restart, RestartBudget, RoleSpec
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.engine.status import status_of
from afo_am.policy.scaling import PATIENCE_S
from afo_am.state.tasks import Stage
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]


def config(least: int = 1, most: int = 4, **options: object) -> AmConfig:
    """A job whose workers may be `least` to `most`; it asks for `most`."""
    made = make_config(workers=1, **options)  # type: ignore[arg-type]
    made.job.roles["worker"] = RoleSpec(instances=Elastic(min=least, max=most))
    return made


def scale(cluster: FakeCluster, workers: int) -> int:
    """How many were wanted before."""
    reply = cluster.tell(m.ScaleRequest(user="alice", workers=workers))
    assert isinstance(reply, m.ScaleReply)
    return reply.before


def training(cluster: FakeCluster) -> FakeCluster:
    """Until every worker has a file."""
    while len({task.index for task in cluster.core.state.splits.leases.values()}) < cluster.core.state.workers:
        cluster.turn()
    return cluster


def running(cluster: FakeCluster) -> list[str]:
    return sorted(str(child.id) for child in cluster.live("worker"))


def ended(cluster: FakeCluster) -> list[tuple[str, str]]:
    events = [event for event in cluster.events(ev.TaskEnded) if isinstance(event, ev.TaskEnded)]
    return [(str(event.task), event.cause) for event in events if event.cause not in ("succeeded", "ended_with_job")]


def states(cluster: FakeCluster) -> dict[str, str]:
    return {str(each.task): each.state for each in status_of(cluster.core, "j", cluster.time).tasks}


def test_workers_with_the_highest_numbers_leave_and_come_back(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    assert scale(cluster, 2) == 4
    assert states(cluster)["worker:3"] == "leaving"
    cluster.turn()
    cluster.turn()
    assert running(cluster) == ["worker:0", "worker:1"]
    assert sorted(ended(cluster)) == [("worker:2", "scaled_away"), ("worker:3", "scaled_away")]
    assert states(cluster)["worker:3"] == "scaled away"
    assert scale(cluster, 3) == 2
    training(cluster)
    assert running(cluster) == ["worker:0", "worker:1", "worker:2"]
    assert cluster.core.state.tasks["worker", 2].id.attempt == 1
    assert cluster.run(turns=2000) == "SUCCEEDED"
    assert set(cluster.model.applied.values()) == {1}
    assert len(cluster.model.applied) == 120
    assert cluster.core.state.restarts == 0


def test_a_file_stays_with_its_reader_until_that_is_over(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    state = cluster.core.state
    held = [split for split, task in state.splits.leases.items() if task.index == 3]
    scale(cluster, 3)
    child = next(each for each in cluster.live("worker") if each.id.index == 3)
    beat = cluster.tell(m.HeartbeatRequest(task=child.id, generation=1, process_alive=True))
    assert isinstance(beat, m.Directive)
    assert (beat.action, beat.reason) == ("end", "alice wants 3 workers")
    request = m.SplitRequest(task=child.id, generation=1)
    assert cluster.tell(request) == m.SplitReply(state="wait")  # neither another file, nor the end of them all
    assert [split for split, task in state.splits.leases.items() if task.index == 3] == held
    cluster.end_container(child.handle)
    cluster.poll()
    assert [split for split, task in state.splits.leases.items() if task.index == 3] == []
    assert state.tasks["worker", 3].stage is Stage.ENDED


def test_who_does_not_leave_is_killed(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    scale(cluster, 3)
    child = next(each for each in cluster.live("worker") if each.id.index == 3)
    for _ in range(int(PATIENCE_S) + 5):
        cluster.time += 1
        cluster.poll()
        for each in cluster.live():
            cluster.tell(m.HeartbeatRequest(task=each.id, generation=1, process_alive=True))
    assert cluster.killed == [child.handle]
    cluster.poll()
    assert ended(cluster) == [("worker:3", "scaled_away")]


def test_the_same_number_changes_nothing(make_cluster: Make) -> None:
    cluster = training(make_cluster(config()))
    assert [scale(cluster, 4), scale(cluster, 3), scale(cluster, 3)] == [4, 4, 3]
    (event,) = cluster.events(ev.WorkersScaled)
    assert event == ev.WorkersScaled(user="alice", number=3, before=4)


def test_who_was_told_to_leave_does_though_it_is_wanted_again(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    scale(cluster, 3)
    scale(cluster, 4)
    assert cluster.run(turns=2000) == "SUCCEEDED"
    assert ended(cluster) == [("worker:3", "scaled_away")]
    assert cluster.core.state.tasks["worker", 3].id.attempt == 1


def test_a_container_that_has_not_come_is_given_up_at_once(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    scale(cluster, 1)
    assert sorted(ended(cluster)) == [(f"worker:{index}", "scaled_away") for index in (1, 2, 3)]
    assert len(cluster.killed) == 3
    assert cluster.run() == "SUCCEEDED"
    assert cluster.core.state.restarts == 0


def test_a_wait_begins_when_a_worker_is_wanted_again(make_cluster: Make) -> None:
    """`timeouts.allocate` counts from then, also where the Application Master was restarted in between."""
    cluster = make_cluster(config())
    scale(cluster, 1)
    cluster.start_am()
    cluster.time += 1700
    scale(cluster, 2)
    assert cluster.core.state.tasks["worker", 1].waiting_since == cluster.core.now


def test_a_job_that_waits_for_containers_needs_fewer(make_cluster: Make) -> None:
    cluster = make_cluster(config(least=2, most=4))
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    cluster.turn()
    words = cluster.core.waiting.words()
    assert "4 of 4 workers" in words
    scale(cluster, 2)
    assert "2 of 2 workers" in cluster.core.waiting.words()


def test_it_is_known_after_a_restart_of_the_master(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    scale(cluster, 2)
    cluster.start_am()
    assert cluster.core.state.workers == 2
    assert scale(cluster, 2) == 2
    assert cluster.run(turns=2000) == "SUCCEEDED"
    assert sorted(ended(cluster)) == [("worker:2", "scaled_away"), ("worker:3", "scaled_away")]


def test_an_end_of_its_own_while_it_leaves_costs_nothing(make_cluster: Make) -> None:
    cluster = training(make_cluster(config(files=60)))
    scale(cluster, 3)
    child = next(each for each in cluster.live("worker") if each.id.index == 3)
    cluster.fail(child, "segmentation_fault", -11)
    assert ended(cluster) == [("worker:3", "scaled_away")]
    assert cluster.events(ev.ProcessEnded) == []
    task = cluster.core.state.tasks["worker", 3]
    assert (task.faults, task.free_restarts) == ([], 0)
    assert (CAUSES["scaled_away"].blame, CAUSES["scaled_away"].retried) == ("nobody", False)


def test_a_worker_that_is_given_up_leaves_its_share_to_the_wanted_ones(make_cluster: Make) -> None:
    """`min_success: 0.5` of two workers that are wanted allows for one, not for two of the four that there were."""
    made = config(files=60, restart=Restart(worker=RestartBudget(max=0)))
    made.job.roles["worker"] = RoleSpec(instances=Elastic(min=1, max=4), min_success=0.5)
    cluster = training(make_cluster(made))
    scale(cluster, 2)
    cluster.turn()
    cluster.turn()
    state = cluster.core.state
    child = next(each for each in cluster.live("worker") if each.id.index == 1)
    cluster.exit(child, "segmentation_fault", -11)
    assert state.tasks["worker", 1].given_up
    assert state.verdict == ""


@pytest.mark.parametrize("number", [0, 5])
def test_a_number_out_of_bounds_is_refused(make_cluster: Make, number: int) -> None:
    cluster = make_cluster(config(least=1, most=4))
    with pytest.raises(
        ProtocolError, match=rf"worker={number}: `roles.worker.instances` of the job file allows 1 to 4"
    ):
        scale(cluster, number)
    assert cluster.core.state.workers == 4


def test_a_fixed_number_is_refused(make_cluster: Make) -> None:
    with pytest.raises(
        ProtocolError, match=r"is 2 in the job file, which is fixed; submit it with `\{min: 1, max: 3\}`"
    ):
        scale(make_cluster(make_config(workers=2)), 3)


def test_a_program_is_refused(make_cluster: Make) -> None:
    base = make_config()
    job = Job(name="test", roles={"worker": RoleSpec(instances=2)}, program="train.py")
    cluster = make_cluster(AmConfig(**{**{name: getattr(base, name) for name in base.__struct_fields__}, "job": job}))
    with pytest.raises(ProtocolError, match="`program` is fixed"):
        scale(cluster, 1)


def test_a_job_that_has_ended_is_refused(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    assert cluster.run() == "SUCCEEDED"
    with pytest.raises(NotFound, match="SUCCEEDED"):
        scale(cluster, 2)


@pytest.mark.parametrize("seed", range(30))
def test_up_and_down_at_random(make_cluster: Make, seed: int) -> None:
    cluster, chance = make_cluster(config(files=40), seed), random.Random(seed)
    wanted = []

    def each(_: FakeCluster, turn: int) -> None:
        if turn < 60 and chance.random() < 0.3 and not cluster.core.state.verdict:
            wanted.append(chance.randint(1, 4))
            scale(cluster, wanted[-1])

    assert cluster.run(turns=3000, each=each) == "SUCCEEDED"
    assert set(cluster.model.applied.values()) == {1}
    assert len(cluster.model.applied) == 80
    assert cluster.core.state.workers == wanted[-1]
    assert cluster.core.state.restarts == 0

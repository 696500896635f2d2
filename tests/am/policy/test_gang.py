"""All of the gang or nothing: jobs that share a cluster too small for both."""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.formats.units import Duration, Memory
from afo.job import Elastic, Job, Role, RoleSpec, Timeouts
from afo.protocol.am_config import AmConfig
from afo_am.policy.gang import missing
from afo_am.state.tasks import Stage
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]

PATIENCE = Timeouts(gang=Duration(20))


class Room:
    """Memory that several jobs share; a request gets its container in its turn, if it fits."""

    def __init__(self, memory: int, per_turn: int = 100) -> None:
        self._memory = memory
        self._per_turn = per_turn
        self._clusters: list[FakeCluster] = []

    def take_in(self, cluster: FakeCluster) -> FakeCluster:
        """From now on the cluster's containers lie here."""
        self._clusters.append(cluster)
        cluster.allocate = lambda: self._grant(cluster)  # type: ignore[method-assign]
        return cluster

    def _grant(self, cluster: FakeCluster) -> None:
        given = 0
        for handle, info in cluster.containers.items():
            size = self._size(cluster, handle)
            if info.state == "requested" and given < self._per_turn and self._used() + size <= self._memory:
                cluster.containers[handle] = replace(info, state="running", container=f"x{handle}", host="h")
                given += 1

    def _used(self) -> int:
        return sum(
            self._size(cluster, handle)
            for cluster in self._clusters
            for handle, info in cluster.containers.items()
            if info.state == "running"
        )

    def _size(self, cluster: FakeCluster, handle: str) -> int:
        child = cluster.children.get(handle)
        return int(cluster.config.job.roles[child.id.role].memory) if child else 0


def config(number: int = 1, **job: object) -> AmConfig:
    """A small job with a name of its own; its gang is two parameter servers, an evaluator and a worker: 8 GiB."""
    return replace(make_config(timeouts=job.pop("timeouts", PATIENCE), **job), job_id=f"local_{number}_0001")  # type: ignore[arg-type]


def run_together(clusters: list[FakeCluster], chaos: random.Random, turns: int = 3000) -> None:
    """Until all are over, or the turns are."""
    for _ in range(turns):
        living = [cluster for cluster in clusters if cluster.finished is None]
        if not living:
            return
        for cluster in chaos.sample(living, len(living)):
            cluster.turn()


def verdicts(clusters: list[FakeCluster]) -> list[str]:
    return [cluster.finished.state if cluster.finished else "" for cluster in clusters]


def two_halves(make_cluster: Make, timeouts: Timeouts = PATIENCE) -> list[FakeCluster]:
    """Two jobs with one container a turn each, on a cluster for one and a half of them."""
    room = Room(memory=12 * 1024, per_turn=1)
    return [room.take_in(make_cluster(config(number, timeouts=timeouts), number)) for number in (1, 2)]


def test_two_jobs_with_half_of_the_cluster_each_both_finish(make_cluster: Make) -> None:
    clusters = two_halves(make_cluster)
    run_together(clusters, random.Random(1))
    assert verdicts(clusters) == ["SUCCEEDED", "SUCCEEDED"]
    released = [event for cluster in clusters for event in cluster.events(ev.GangReleased)]
    assert [(event.held, event.missing) for event in released if isinstance(event, ev.GangReleased)] == [
        (3, "worker:0")
    ]
    ends = [event for cluster in clusters for event in cluster.events(ev.TaskEnded)]
    causes = [event.cause for event in ends if isinstance(event, ev.TaskEnded)]
    assert causes.count("gang_released") == 5, "what was held, and what had been asked for"


def test_without_a_release_both_would_wait_for_ever(make_cluster: Make) -> None:
    clusters = two_halves(make_cluster, Timeouts(gang=Duration(86400), allocate=Duration(1200)))
    run_together(clusters, random.Random(1))
    assert [cluster.core.state.verdict_cause for cluster in clusters] == ["allocation_timeout"] * 2


@pytest.mark.parametrize("block", range(8))
def test_jobs_on_a_crowded_cluster_all_finish(make_cluster: Make, block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        chaos = random.Random(seed)
        jobs = [_some_job(number, chaos) for number in range(chaos.randint(2, 4))]
        wholes = [sum(spec.memory * spec.count for spec in job.job.roles.values()) for job in jobs]
        # Every job fits alone, and not all of them together.
        room = Room(chaos.randint(max(wholes), max(max(wholes), sum(wholes) - 1024)), per_turn=chaos.randint(1, 3))
        clusters = [room.take_in(make_cluster(job, seed)) for job in jobs]
        for _ in range(6000):
            run_together(clusters, chaos, turns=1)
            cluster = chaos.choice(clusters)
            if chaos.random() < 0.01 and cluster.finished is None:
                cluster.start_am()
            if all(verdicts(clusters)):
                break
        assert verdicts(clusters) == ["SUCCEEDED"] * len(clusters), f"seed {seed}"


def _some_job(number: int, chaos: random.Random) -> AmConfig:
    workers, least = chaos.randint(1, 6), chaos.randint(1, 3)
    base = config(
        number, workers=workers, ps=chaos.randint(1, 4), files=chaos.randint(1, 6), evaluator=chaos.random() < 0.5,
        timeouts=Timeouts(gang=Duration(20), allocate=Duration(5000)),
    )  # fmt: skip
    roles = dict(base.job.roles)
    if chaos.random() < 0.5:
        roles["worker"] = RoleSpec(instances=Elastic(min=min(least, workers), max=workers))
    roles["ps"] = replace(roles["ps"], memory=Memory(chaos.choice((1024, 2048, 4096))))
    return replace(base, job=replace(base.job, roles=roles))


def test_a_job_with_enough_room_keeps_what_it_has(make_cluster: Make) -> None:
    for seed in range(20):
        chaos = random.Random(seed)
        room = Room(memory=20 * 1024, per_turn=1)
        clusters = [room.take_in(make_cluster(config(number), seed)) for number in (1, 2)]
        run_together(clusters, chaos)
        assert verdicts(clusters) == ["SUCCEEDED", "SUCCEEDED"]
        assert [cluster.events(ev.GangReleased) for cluster in clusters] == [[], []]


def held_at_half(make_cluster: Make, **job: object) -> FakeCluster:
    """A job that has room for all but the last of its gang."""
    cluster = Room(memory=6 * 1024).take_in(make_cluster(config(**job)))
    for _ in range(5):
        cluster.turn()
    return cluster


def released(cluster: FakeCluster, times: int = 1) -> FakeCluster:
    """The job right after it gave its containers back."""
    for _ in range(2000):
        if len(cluster.events(ev.GangReleased)) == times:
            return cluster
        cluster.turn()
    pytest.fail("nothing was given back")


def test_a_release_costs_no_budget_and_asks_for_the_servers_first(make_cluster: Make) -> None:
    cluster = released(held_at_half(make_cluster))
    assert not [info for info in cluster.containers.values() if info.state != "ended"]
    assert all(task.stage is Stage.ENDED for task in cluster.core.state.tasks.values())
    cluster.allocate = lambda: FakeCluster.allocate(cluster)  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"
    assert all(not task.faults and not task.free_restarts for task in cluster.core.state.tasks.values())
    (finished,) = cluster.events(ev.JobFinished)
    assert isinstance(finished, ev.JobFinished)
    assert finished.restarts == 0
    asked = [str(event.task) for event in cluster.events(ev.ContainerRequested)]  # type: ignore[union-attr]
    assert asked == ["ps:0", "ps:1", "evaluator:0", "worker:0", "worker:1"] * 2


def test_the_pause_is_kept_by_a_restarted_am(make_cluster: Make) -> None:
    cluster = released(held_at_half(make_cluster), times=2)
    before = cluster.core.state.gang
    requests = len(cluster.events(ev.ContainerRequested))
    cluster.start_am()
    assert cluster.core.state.gang == before
    assert cluster.core.state.gang is not before
    while cluster.time < before.ask_at - 1:
        cluster.turn()
        assert len(cluster.events(ev.ContainerRequested)) == requests
    cluster.turn()
    cluster.turn()
    assert len(cluster.events(ev.ContainerRequested)) == requests + 5


def test_patience_and_pause_grow_and_differ_from_job_to_job(make_cluster: Make) -> None:
    def story(number: int) -> list[tuple[float, float]]:
        room = Room(memory=6 * 1024)
        cluster = released(room.take_in(make_cluster(config(number))), times=3)
        events = [event for event in cluster.events(ev.GangReleased) if isinstance(event, ev.GangReleased)]
        return [(event.waited_s, event.pause_s) for event in events]

    first, second = story(1), story(2)
    assert first == story(1)
    assert first != second
    for grown in (first, second):
        waits, pauses = zip(*grown, strict=True)
        assert 20 <= waits[0] <= 32
        assert 45 <= waits[2] <= 69
        assert 1 <= pauses[0] <= 3
        assert 4 <= pauses[2] <= 12


def test_the_whole_wait_is_bounded(make_cluster: Make) -> None:
    cluster = held_at_half(make_cluster, timeouts=Timeouts(gang=Duration(20), allocate=Duration(300)))
    begun = cluster.time
    assert cluster.run(turns=700) == "FAILED"
    state = cluster.core.state
    assert state.verdict_cause == "allocation_timeout"
    assert "worker:0" in state.diagnostics
    assert "within 5m (`timeouts.allocate`)" in state.diagnostics
    assert state.ending_since - begun < 310


def test_a_generation_forms_with_the_minimum_of_workers_and_not_before(make_cluster: Make) -> None:
    roles: dict[Role, RoleSpec] = {
        "ps": RoleSpec(instances=2), "worker": RoleSpec(instances=Elastic(min=3, max=6)),
    }  # fmt: skip
    base = config(evaluator=False, timeouts=Timeouts(gang=Duration(2000)))
    cluster = make_cluster(replace(base, job=replace(base.job, roles=roles)))
    room = Room(memory=8 * 1024)
    room.take_in(cluster)
    for _ in range(20):
        cluster.turn()
    assert [str(task.id) for task in missing(cluster.core.state)] == ["worker:2"]
    assert not cluster.core.state.cluster
    Room(memory=10 * 1024).take_in(cluster)
    for _ in range(5):
        cluster.turn()
    assert missing(cluster.core.state) == []
    assert cluster.core.state.cluster
    assert cluster.run() == "SUCCEEDED"


def test_all_tasks_of_a_program_are_its_gang_but_the_evaluator(make_cluster: Make) -> None:
    roles: dict[Role, RoleSpec] = {
        "chief": RoleSpec(), "worker": RoleSpec(instances=2), "ps": RoleSpec(), "evaluator": RoleSpec(),
    }  # fmt: skip
    program = Job(name="test", roles=roles, program="train.py", timeouts=PATIENCE)
    cluster = Room(memory=6 * 1024).take_in(make_cluster(replace(config(), job=program, train_files=())))
    lacking = [str(task.id) for task in missing(cluster.core.state)]
    assert sorted(lacking) == ["chief:0", "ps:0", "worker:0", "worker:1"]
    released(cluster)
    cluster.allocate = lambda: FakeCluster.allocate(cluster)  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"


def test_a_lost_chief_that_finds_no_place_before_the_first_step_frees_the_others(make_cluster: Make) -> None:
    cluster = make_cluster(config())
    while not cluster.core.state.cluster:
        cluster.turn()
    assert not cluster.core.state.ready
    cluster.end_container(cluster.live("worker")[0].handle)
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    released(cluster)
    assert len(cluster.events(ev.GenerationEnded)) == 1
    cluster.allocate = lambda: FakeCluster.allocate(cluster)  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"


def test_a_training_job_gives_nothing_back(make_cluster: Make) -> None:
    cluster = make_cluster(config(files=200))
    while not cluster.core.state.ready:
        cluster.turn()
    cluster.end_container(next(child.handle for child in cluster.live("worker") if child.id.index == 1))
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    for _ in range(100):
        cluster.turn()
    assert cluster.events(ev.GangReleased) == []


def test_elastic_workers_that_never_come_do_not_fail_a_job_that_trains(make_cluster: Make) -> None:
    roles: dict[Role, RoleSpec] = {"ps": RoleSpec(), "worker": RoleSpec(instances=Elastic(min=2, max=5))}
    base = config(evaluator=False, files=60, timeouts=Timeouts(allocate=Duration(30)))
    cluster = make_cluster(replace(base, job=replace(base.job, roles=roles)))
    room = Room(memory=6 * 1024)
    room.take_in(cluster)

    def fill_up_what_gets_free(cluster: FakeCluster, turn: int) -> None:
        if cluster.core.state.ready:
            cluster.allocate = lambda: None  # type: ignore[method-assign]

    assert cluster.run(turns=1000, each=fill_up_what_gets_free) == "SUCCEEDED"
    assert cluster.time - 1000 > 60
    never = [task for task in cluster.core.state.tasks.values() if not task.host]
    assert len(never) == 3


def test_a_worker_without_a_container_holds_up_no_job_whose_chief_is_done(make_cluster: Make) -> None:
    cluster = make_cluster(config(files=20))
    while not cluster.core.state.ready:
        cluster.turn()
    cluster.end_container(next(child.handle for child in cluster.live("worker") if child.id.index == 1))
    cluster.allocate = lambda: None  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"
    assert cluster.core.state.tasks["worker", 1].last_cause != "succeeded"

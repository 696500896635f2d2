"""Jobs of a user's own program, as the core runs them."""

import random
from collections.abc import Callable

import pytest

from afo.events import types as ev
from afo.job import Job, Restart, RestartBudget, Role, RoleSpec
from afo.protocol.am_config import AmConfig
from afo.rpc import messages as m
from afo_am.engine.status import status_of
from fake_cluster import FakeCluster, FakeTask, make_config

Make = Callable[..., FakeCluster]
GENEROUS = RestartBudget(max=1000)


def config(
    scope: str = "job", roles: dict[Role, RoleSpec] | None = None, budget: RestartBudget = GENEROUS,
    ends_with: str = "all",
) -> AmConfig:  # fmt: skip
    """A chief, two workers, a parameter server and an evaluator."""
    usual: dict[Role, RoleSpec] = {
        "chief": RoleSpec(), "worker": RoleSpec(instances=2), "ps": RoleSpec(), "evaluator": RoleSpec(),
    }  # fmt: skip
    restart = Restart(scope=scope, chief=budget, worker=budget, ps=budget)  # type: ignore[arg-type]
    job = Job(name="test", roles=roles or usual, program="train.py", restart=restart, ends_with=ends_with)  # type: ignore[arg-type]
    base = make_config()
    return AmConfig(
        **{field: getattr(base, field) for field in base.__struct_fields__} | {"job": job, "train_files": ()}
    )


def running(cluster: FakeCluster, generation: int = 1) -> FakeCluster:
    """The cluster once every program of a generation runs; none of them succeeds before `finish`."""
    cluster.success_rate = 0.0
    for _ in range(50):
        live = cluster.live()
        if len(live) == len(cluster.core.state.tasks) and all(
            one.running and one.generation == generation for one in live
        ):
            return cluster
        cluster.turn()
    pytest.fail(f"generation {generation} does not run: {cluster.live()}")


def finish(cluster: FakeCluster) -> str:
    """How the job ends."""
    cluster.success_rate = 0.2
    return cluster.run()


def child(cluster: FakeCluster, name: str) -> FakeTask:
    """The live Child of a task."""
    return next(each for each in cluster.live() if str(each.id) == name)


def clusters(cluster: FakeCluster) -> list[ev.GenerationStarted]:
    """Every definition of the cluster so far."""
    return [event for event in cluster.events(ev.GenerationStarted) if isinstance(event, ev.GenerationStarted)]


def test_every_task_but_the_evaluator_has_an_address(make_cluster: Make) -> None:
    cluster = running(make_cluster(config()))
    (started,) = clusters(cluster)
    assert {role: len(addresses) for role, addresses in started.cluster.items()} == {"chief": 1, "worker": 2, "ps": 1}
    directives = [each.directive for each in cluster.live()]
    assert all(directive is not None and directive.cluster == started.cluster for directive in directives)
    assert status_of(cluster.core, "local_1_0001", cluster.time).state == "RUNNING"
    assert finish(cluster) == "SUCCEEDED"
    assert cluster.finished is not None
    assert "program has done its work" in cluster.finished.diagnostics


def test_a_job_without_parameter_servers(make_cluster: Make) -> None:
    cluster = make_cluster(config(roles={"worker": RoleSpec(instances=2)}))
    assert cluster.run() == "SUCCEEDED"
    assert clusters(cluster)[0].cluster.keys() == {"worker"}


@pytest.mark.parametrize("name", ["chief:0", "worker:1", "ps:0"])
def test_with_one_process_all_start_anew_in_their_containers(make_cluster: Make, name: str) -> None:
    cluster = running(make_cluster(config()))
    containers, before = set(cluster.containers), clusters(cluster)[-1].cluster
    cluster.fail(child(cluster, name), "segmentation_fault", -11)
    cluster.fail(child(cluster, "worker:0"), "user_exception", 1, "RuntimeError: peer is gone")
    running(cluster, generation=2)
    assert set(cluster.containers) == containers
    after = clusters(cluster)[-1].cluster
    assert not set(sum(after.values(), ())) & set(sum(before.values(), ()))
    (ended,) = cluster.events(ev.ProcessEnded)
    assert isinstance(ended, ev.ProcessEnded)
    assert (str(ended.task), ended.cause) == (name, "segmentation_fault"), "the echo of its end is nobody's fault"
    assert finish(cluster) == "SUCCEEDED"
    assert cluster.core.state.restarts == 1


def test_echoes_are_never_blamed_however_many(make_cluster: Make) -> None:
    cluster = running(make_cluster(config(budget=RestartBudget(max=100))))
    for generation in range(2, 12):
        cluster.fail(child(cluster, "worker:1" if generation % 2 else "chief:0"), "segmentation_fault", -11)
        cluster.fail(child(cluster, "worker:0"), "user_exception", 1, "RuntimeError: peer is gone")
        running(cluster, generation=generation)
    assert child(cluster, "worker:0").id.attempt == 0, "it stays in its container"
    assert not cluster.core.state.tasks["worker", 0].faults
    assert finish(cluster) == "SUCCEEDED"


def test_a_lost_container_is_replaced_and_the_others_start_anew_in_place(make_cluster: Make) -> None:
    cluster = running(make_cluster(config()))
    kept = {each.handle for each in cluster.live() if str(each.id) != "worker:1"}
    cluster.end_container(child(cluster, "worker:1").handle)
    running(cluster, generation=2)
    assert kept < {each.handle for each in cluster.live()}
    assert child(cluster, "worker:1").id.attempt == 1


def test_an_evaluator_comes_back_alone(make_cluster: Make) -> None:
    cluster = running(make_cluster(config()))
    cluster.exit(child(cluster, "evaluator:0"), "user_exception", 1, "ValueError: no checkpoint yet")
    assert finish(cluster) == "SUCCEEDED"
    assert len(clusters(cluster)) == 1


def test_a_job_that_ends_with_its_chief_ends_workers_that_serve_for_ever(make_cluster: Make) -> None:
    cluster = running(make_cluster(config(ends_with="chief")))
    cluster.exit(child(cluster, "chief:0"), "succeeded", 0)
    assert cluster.run() == "SUCCEEDED"
    ends = {str(end.task): end.cause for end in cluster.events(ev.TaskEnded) if isinstance(end, ev.TaskEnded)}
    assert ends["chief:0"] == "succeeded"
    assert "succeeded" not in {ends.get("worker:0"), ends.get("worker:1")}


def test_with_scope_task_the_others_go_on_and_later_ones_know_the_new_address(make_cluster: Make) -> None:
    cluster = running(make_cluster(config(scope="task")))
    before = clusters(cluster)[-1].cluster
    cluster.fail(child(cluster, "worker:1"), "killed_by_signal", -9)
    running(cluster)
    after = clusters(cluster)[-1]
    assert after.generation == 1
    assert cluster.events(ev.GenerationEnded) == []
    assert {role: len(set(after.cluster[role]) - set(before[role])) for role in before} == {
        "chief": 0, "worker": 1, "ps": 0,
    }  # fmt: skip
    assert finish(cluster) == "SUCCEEDED"


def test_a_program_that_always_fails_ends_the_job(make_cluster: Make) -> None:
    cluster = make_cluster(config(budget=RestartBudget(max=3)))
    cluster.failure_rate = 1.0
    assert cluster.run() == "FAILED"
    assert cluster.finished is not None
    assert "its restart budget is spent: 3 in" in cluster.finished.diagnostics


def test_a_mistake_in_the_code_is_not_tried_again(make_cluster: Make) -> None:
    cluster = running(make_cluster(config()))
    cluster.fail(child(cluster, "worker:0"), "user_exception", 1, "ModuleNotFoundError: No module named 'tensrflow'")
    assert finish(cluster) == "FAILED"
    (ending,) = cluster.events(ev.JobEnding)
    assert isinstance(ending, ev.JobEnding)
    assert "tensrflow" in ending.diagnostics
    assert ending.first_task == m.TaskId(role="worker", index=0, attempt=0)


@pytest.mark.parametrize("scope", ["job", "task"])
def test_random_faults_never_break_the_promises(make_cluster: Make, scope: str) -> None:
    for seed in range(60):
        chaos = random.Random(seed)
        cluster = make_cluster(config(scope), seed)
        cluster.failure_rate = chaos.choice([0.0, 0.02, 0.1])

        def disturb(cluster: FakeCluster, turn: int, chaos: random.Random = chaos) -> None:
            if turn < 150 and chaos.random() < 0.1 and cluster.live():
                match chaos.randrange(4):
                    case 0:
                        cluster.start_am()
                    case 1:
                        cluster.lose_am_container()
                    case _:
                        cluster.end_container(chaos.choice(cluster.live()).handle)
            if scope == "job":
                views = {tuple(sorted(each.directive.cluster.items())) for each in up(cluster)}  # type: ignore[union-attr]
                assert len(views) <= 1, "programs of two cluster definitions at a time"

        assert cluster.run(turns=800, each=disturb) == "SUCCEEDED", f"seed {seed}"


def up(cluster: FakeCluster) -> list[FakeTask]:
    """Children whose programs run in the newest generation of them."""
    alive = [each for each in cluster.live() if each.running and each.directive is not None]
    newest = max((each.generation for each in alive), default=0)
    return [each for each in alive if each.generation == newest]


def test_a_program_that_finds_its_checkpoints_gone_is_not_tried_again(make_cluster: Make) -> None:
    """Nobody counts its ends, so that it would begin again for ever."""
    cluster = running(make_cluster(config()))
    cluster.fail(child(cluster, "worker:0"), "checkpoint_lost", 1, "CheckpointLost: m-7")
    assert finish(cluster) == "FAILED"

"""Tasks that a job can do without."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Data, EarlyStop, Job, Model, Restart, RestartBudget, RoleSpec, Timeouts, Train
from afo.protocol.am_config import AmConfig
from afo_am.engine.status import status_of
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]


def config(min_success: float = 1.0, *, optional: bool = False, workers: int = 4) -> AmConfig:
    base = make_config(files=60, workers=workers, restart=Restart(worker=RestartBudget(max=1)))
    job = base.job
    roles = {
        **job.roles,
        "worker": RoleSpec(instances=workers, min_success=min_success),
        "evaluator": RoleSpec(optional=optional),
    }
    return _with_job(base, roles=roles)


def _with_job(base: AmConfig, **changes: object) -> AmConfig:
    return replace(base, job=replace(base.job, **changes))


def crash(*names: str, cause: str = "segmentation_fault", leaves: bool = False) -> Callable[[FakeCluster, int], None]:
    """Their processes fail as soon as they run."""

    def each(cluster: FakeCluster, turn: int) -> None:
        for child in cluster.live():
            if child.running and str(child.id) in names:
                (cluster.exit if leaves else cluster.fail)(child, cause, 1, f"words of {child.id}")

    return each


def given_up(cluster: FakeCluster) -> list[str]:
    return [str(event.task) for event in cluster.events(ev.TaskGivenUp) if isinstance(event, ev.TaskGivenUp)]


@pytest.mark.parametrize("leaves", [False, True], ids=["in place", "in containers"])
def test_the_others_do_the_work_of_workers_that_are_given_up(make_cluster: Make, leaves: bool) -> None:
    cluster = make_cluster(config(0.5))
    assert cluster.run(each=crash("worker:1", "worker:3", leaves=leaves)) == "SUCCEEDED"
    assert sorted(given_up(cluster)) == ["worker:1", "worker:3"]
    assert set(cluster.model.applied.values()) == {1}
    assert cluster.finished is not None
    assert cluster.finished.diagnostics == "all samples were trained on; without worker:1, worker:3"
    assert not cluster.live("worker")


def test_one_more_than_the_share_allows_fails_the_job(make_cluster: Make) -> None:
    cluster = make_cluster(config(0.5))
    assert cluster.run(each=crash("worker:1", "worker:2", "worker:3")) == "FAILED"
    assert len(given_up(cluster)) == 2
    assert cluster.finished is not None
    assert "its restart budget is spent" in cluster.finished.diagnostics


def test_the_chief_is_always_needed(make_cluster: Make) -> None:
    cluster = make_cluster(config(0.25))
    assert cluster.run(each=crash("worker:0")) == "FAILED"
    assert given_up(cluster) == []


def test_damaged_data_fails_the_job_and_no_worker_after_the_other(make_cluster: Make) -> None:
    cluster = make_cluster(config(0.25))
    assert cluster.run(each=crash("worker:2", cause="data_error")) == "FAILED"
    assert given_up(cluster) == []


@pytest.mark.parametrize("cause", ["segmentation_fault", "user_exception", "data_error"])
def test_an_optional_evaluator_fails_no_job(make_cluster: Make, cause: str) -> None:
    cluster = make_cluster(config(optional=True))
    assert cluster.run(each=crash("evaluator:0", cause=cause)) == "SUCCEEDED"
    assert given_up(cluster) == ["evaluator:0"]
    assert cluster.run(each=crash("evaluator:0", cause=cause)) == "SUCCEEDED"


def test_an_evaluator_fails_the_job_else(make_cluster: Make) -> None:
    assert make_cluster(config()).run(each=crash("evaluator:0", cause="data_error")) == "FAILED"


def test_an_optional_evaluator_without_a_container_holds_up_nothing(make_cluster: Make) -> None:
    base = _with_job(config(optional=True), timeouts=Timeouts(allocate=Duration(30)))
    cluster = make_cluster(base)
    allocate = cluster.allocate
    cluster.allocate = lambda: _but_evaluator(cluster, allocate)  # type: ignore[method-assign]
    assert cluster.run() == "SUCCEEDED"


def _but_evaluator(cluster: FakeCluster, allocate: Callable[[], None]) -> None:
    hidden = {handle for handle, child in cluster.children.items() if child.id.role == "evaluator"}
    kept = {handle: cluster.containers.pop(handle) for handle in hidden if handle in cluster.containers}
    allocate()
    cluster.containers.update(kept)


def test_the_status_says_who_was_given_up(make_cluster: Make) -> None:
    cluster = make_cluster(config(0.5))
    cluster.run(each=crash("worker:1"))
    states = {str(task.task): task.state for task in status_of(cluster.core, "job", cluster.time).tasks}
    assert states["worker:1"] == "given up"


@pytest.mark.parametrize(
    ("roles", "more", "words"),
    [
        ({"ps": RoleSpec(optional=True)}, {}, "`roles.ps.optional`: only the evaluator is"),
        ({"worker": RoleSpec(optional=True)}, {}, "for workers there is `min_success`"),
        ({"ps": RoleSpec(min_success=0.5)}, {}, "`roles.ps.min_success` is for the workers of a model"),
        (
            {"evaluator": RoleSpec(optional=True)}, {"train": Train(early_stop=EarlyStop())},
            "`roles.evaluator.optional`: `train.early_stop` or `export` goes by its evaluations",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_without(roles: dict[str, RoleSpec], more: dict[str, object], words: str) -> None:
    every = {"ps": RoleSpec(), "worker": RoleSpec(), "evaluator": RoleSpec()} | roles
    with pytest.raises(ValueError, match=words):
        Job(name="j", roles=every, data=Data(train=("a",), eval=("b",)), model=Model(), **more)  # type: ignore[arg-type]

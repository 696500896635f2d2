"""Fixtures of the AM's tests."""

from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from afo.events import types as ev
from afo.events.job_costs import JobCosts
from afo.protocol.am_config import AmConfig
from afo_am.core.core import Core
from afo_am.state import invariants
from fake_cluster import FakeCluster, make_config
from journaled_state import journaled_state


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., FakeCluster]]:
    """Makes fake clusters; every state is validated again at the end, and must equal its own replay."""
    made: list[FakeCluster] = []

    def make(config: AmConfig | None = None, seed: int = 0) -> FakeCluster:
        made.append(FakeCluster(config or make_config(), seed))
        return made[-1]

    yield make
    for cluster in made:
        invariants.check(cluster.core.state)
        replayed = Core(cluster.config, now=0.0)
        for event, wall in cluster.log:
            replayed.replay(event, wall)
        assert journaled_state(replayed) == journaled_state(cluster.core)
        assert_costs_are_told_by_the_log(cluster.log)


def assert_costs_are_told_by_the_log(log: list[tuple[ev.AnyEvent, float]]) -> None:
    """Who writes the verdict in the AM's place must come to its numbers."""
    costs = JobCosts()
    for event, wall in log:
        costs.take(event, wall)
        if isinstance(event, ev.JobFinished):
            counted = (event.core_hours, event.memory_gb_hours, event.train_seconds)
            assert structs.astuple(costs.costs) == pytest.approx(counted)

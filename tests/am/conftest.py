"""Fixtures of the AM's tests."""

from collections.abc import Callable, Iterator

import pytest

from afo.am_config import AmConfig
from afo_am.core import Core
from fake_cluster import FakeCluster, make_config
from journaled import journaled


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., FakeCluster]]:
    """Makes fake clusters; every state is validated again at the end, and must equal its own replay."""
    made: list[FakeCluster] = []

    def make(config: AmConfig | None = None, seed: int = 0) -> FakeCluster:
        made.append(FakeCluster(config or make_config(), seed))
        return made[-1]

    yield make
    for cluster in made:
        cluster.core.state.validate()
        replayed = Core(cluster.config, now=0.0)
        for event, wall in cluster.log:
            replayed.replay(event, wall)
        assert journaled(replayed) == journaled(cluster.core)

"""Fixtures of the AM's tests."""

from collections.abc import Callable, Iterator

import pytest

from afo.am_config import AmConfig
from afo_am.core import Core
from fake_cluster import FakeCluster, make_config


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


VOLATILE = {
    "last_seen", "waiting_since", "not_before", "address", "address_generation", "process_alive", "progress", "usage",
}  # fmt: skip


def journaled(core: Core) -> dict[str, object]:
    """What the journal covers of a core's state."""
    state = dict(vars(core.state))
    splits = {key: value for key, value in vars(state.pop("splits")).items() if key != "_heap"}
    tasks = {
        key: {name: value for name, value in vars(task).items() if name not in VOLATILE}
        for key, task in state.pop("tasks").items()
    }
    return {**state, "splits": splits, "tasks": tasks}

"""What a worker says of the files that it reads."""

from types import SimpleNamespace
from typing import Any

import pytest

from afo.job import Data
from afo.rpc import messages as m
from afo.train.split_client import Splits

pytestmark = pytest.mark.tensorflow


def test_a_request_names_what_is_read_with_its_epoch() -> None:
    asked: list[m.SplitRequest] = []
    given = iter([(3, 0), (1, 1)])

    def next_split(request: m.SplitRequest) -> m.SplitReply:
        asked.append(request)
        split, epoch = next(given, (-1, 0))
        state: Any = "lease" if split >= 0 else "wait"
        return m.SplitReply(state=state, split=split, epoch=epoch, url=f"/data/{split}")

    setup: Any = SimpleNamespace(
        id=m.TaskId(role="worker", index=0, attempt=0),
        task=SimpleNamespace(generation=1),
        master=SimpleNamespace(next_split=next_split),
        job=SimpleNamespace(data=Data(train=("/data/*",))),
    )
    positions: Any = None
    splits = Splits(setup, positions)
    while splits.next_split() != "wait":
        pass
    assert [(each.holding, each.epochs) for each in asked] == [((), ()), ((3,), (0,)), ((3, 1), (0, 1))]

"""Groups of tables in this process, each test's its own."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

CPU = "/device:CPU:0"
_numbers = itertools.count()


@pytest.fixture
def new_group() -> Callable[[int], Any]:
    """A function (servers) → a new group of so many servers, all in this process."""
    from afo.embedding import TableGroup

    return lambda servers: TableGroup([CPU] * servers, name=f"test/{next(_numbers)}")

"""Groups of tables in this process, each test's its own."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

CPU = "/device:CPU:0"
_numbers = itertools.count()


@pytest.fixture
def new_group() -> Callable[..., Any]:
    """A function (servers, slots=None) → a new group of so many servers, all in this process."""
    from afo.embedding import TableGroup

    return lambda servers, slots=None: TableGroup([CPU] * servers, name=f"test/{next(_numbers)}", slots=slots)

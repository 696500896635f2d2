"""Fixtures of the library's tests."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from click_records import SCHEMA

CPU = "/device:CPU:0"
_numbers = itertools.count()


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    """The schema of `click_records`."""
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA.to_yaml())
    return path


@pytest.fixture
def new_group() -> Callable[..., Any]:
    """A function (servers, slots=None) → a new group of so many servers, all in this process."""
    from afo.embedding import TableGroup

    return lambda servers, slots=None: TableGroup([CPU] * servers, name=f"test/{next(_numbers)}", slots=slots)

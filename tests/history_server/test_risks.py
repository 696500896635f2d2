"""The page of the history server names a test for each risk, and it is there."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "history-server.md"
ROWS = re.findall(r"^\|.*\| `([\w./]+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_the_test_is_there(file: str, name: str) -> None:
    path = PAGE.parents[1] / file if "/" in file else HERE / file
    assert f"def {name}(" in path.read_text(encoding="utf-8")


def test_there_are_rows() -> None:
    assert len(ROWS) >= 15

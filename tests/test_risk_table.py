"""docs/history-server.md names a test for each risk, and it is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "history-server.md"
ROWS = re.findall(r"^\|.*\| `([\w./]+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_the_test_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_rows() -> None:
    assert len(ROWS) >= 15

"""Fixtures of the library's tests."""

from pathlib import Path

import pytest

from click_records import SCHEMA


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    """The schema of `click_records`."""
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA.to_yaml())
    return path

"""Scratch directory of a command."""

import tempfile
from pathlib import Path

import pytest

from afo.errors import UsageError
from afo.process.scratch import scratch_folder


def test_it_is_where_tmpdir_says_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", f"{tmp_path}/")
    monkeypatch.setattr(tempfile, "tempdir", None)
    with scratch_folder("afo-") as folder:
        assert Path(folder).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_tmpdir_that_takes_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the files would go to /tmp, whose disk nobody chose."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(UsageError, match=r"TMPDIR=.*/none: no file can be written there"), scratch_folder("afo-"):
        pass

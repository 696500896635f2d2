import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.storage.private_files import make_private, open_to_others, write_private


@pytest.fixture(params=[0o000, 0o002, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_they_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "a" / "b"
    make_private(folder)
    make_private(folder)
    write_private(folder / "file", b"one")
    write_private(folder / "file", b"two")
    assert (mode(folder.parent), mode(folder), mode(folder / "file")) == (0o700, 0o700, 0o600)
    assert (folder / "file").read_bytes() == b"two"
    assert [each.name for each in folder.iterdir()] == ["file"]
    assert open_to_others([folder, folder / "file", folder / "none"]) == {}


def test_what_is_there_is_left_and_found(tmp_path: Path) -> None:
    folder, closed = tmp_path / "open", tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o710)
    closed.mkdir(mode=0o700)
    make_private(folder / "inner")
    assert (mode(folder), mode(folder / "inner")) == (0o710, 0o700)
    assert open_to_others([folder, closed]) == {folder: 0o710}


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "name", b"")
    assert [each.name for each in tmp_path.iterdir()] == ["name"]

"""Folders that belong to one user each, in a directory that many may write to."""

import stat
from pathlib import Path

import pytest

from afo import storage
from afo.errors import PermissionDenied
from afo_client.submission.user_folder import make_user_folder, user_folder
from fake_runtime import made_by_another


@pytest.mark.parametrize("user", ["ann", "ann/..", "../ann", ".", "a b%2F"])
def test_it_is_one_folder_at_the_top_for_its_user_alone(tmp_path: Path, user: str) -> None:
    for each in (user, "bob"):
        make_user_folder(user_folder(str(tmp_path), "once", each))
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (len(found), set(found.values())) == (2, {0o700})
    assert all(name.startswith("once-") for name in found)


def test_one_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    folder = Path(user_folder(str(tmp_path), "rows", "ann"))
    folder.mkdir(mode=0o750)
    (folder / "kept").touch()
    make_user_folder(str(folder))
    assert [path.name for path in folder.iterdir()] == ["kept"]


def test_another_s_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = user_folder(str(tmp_path), "rows", "ann")
    make_user_folder(folder)
    made_by_another(monkeypatch, Path(folder))
    with pytest.raises(PermissionDenied, match="rows-ann was made by another user; ask for its removal"):
        make_user_folder(folder)
    assert list(Path(folder).iterdir()) == []


def test_one_that_takes_no_file_is_named_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, data: bytes) -> None:
        raise PermissionDenied(f"cannot write {url}")

    monkeypatch.setattr(storage, "write_bytes", refuse)
    with pytest.raises(PermissionDenied, match="rows-ann was made by another user"):
        make_user_folder(user_folder(str(tmp_path), "rows", "ann"))


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    folder = Path(user_folder(str(tmp_path), "rows", "ann"))
    (tmp_path / "own").mkdir()
    folder.symlink_to(tmp_path / "own")
    with pytest.raises(PermissionDenied, match="made by another user"):
        make_user_folder(str(folder))
    assert list((tmp_path / "own").iterdir()) == []

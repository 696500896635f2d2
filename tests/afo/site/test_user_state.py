import logging
import os
from pathlib import Path

import pytest

from afo.errors import NotFound, PermissionDenied, SpecError
from afo.site.user_state import UserState


def test_secrets_are_private(tmp_path: Path) -> None:
    state = UserState(tmp_path / ".afo")
    state.keep_secret("local_1_1", "s3cret")
    assert state.secret("local_1_1") == "s3cret"
    assert state.secret("local_1_2") is None
    file = state.secret_file("local_1_1")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in file.parent.iterdir()] == ["local_1_1"]
    state.forget_secret("local_1_1")
    state.forget_secret("local_1_1")
    assert state.secret("local_1_1") is None


def test_a_secret_is_there_before_its_job_has_an_id(tmp_path: Path) -> None:
    state = UserState(tmp_path)
    with state.hold_secret("s3cret") as keep:
        assert [each.read_text() for each in (tmp_path / "secrets").iterdir()] == ["s3cret"]
        keep("local_1_1")
    assert state.secret("local_1_1") == "s3cret"
    with pytest.raises(NotFound), state.hold_secret("another"):
        raise NotFound("no such queue")
    assert [each.name for each in (tmp_path / "secrets").iterdir()] == ["local_1_1"]


def test_the_folder_is_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = UserState(tmp_path / "state")
        state.make_above(str(tmp_path / "elsewhere"))
        assert not state.folder.exists()
        state.make_above(str(tmp_path / "state" / "jobs"))
        assert state.folder.stat().st_mode & 0o777 == 0o700
        state.keep_submission("local_1_1", b"{}")
        state.make_token()
    finally:
        os.umask(before)
    assert state.open_to_others() == {}
    assert state.token_file().stat().st_mode & 0o777 == 0o600


def test_a_loosened_folder_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = UserState(tmp_path / "state")
    state.keep_secret("local_1_1", "s3cret")
    assert not caplog.records
    state.folder.chmod(0o755)
    state.secret_file("local_1_1").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        again = UserState(tmp_path / "state" / ".." / "state")  # another command
        assert [again.secret("local_1_1") for _ in range(2)] == ["s3cret"] * 2
    assert [f"chmod 700 {again.folder}" in record.getMessage() for record in caplog.records] == [True]
    assert list(state.open_to_others().values()) == [0o755, 0o644]
    assert state.folder.stat().st_mode & 0o777 == 0o755, "it may be a directory of others, too"


def test_the_last_job(tmp_path: Path) -> None:
    state = UserState(tmp_path)
    assert state.last_job() is None
    state.remember_last("application_1_0001")
    assert state.last_job() == "application_1_0001"
    (tmp_path / "last-job").write_text("../../etc/passwd")
    assert state.last_job() is None


def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        UserState(tmp_path).keep_secret("../x", "s")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionDenied, match="AFO_STATE_DIR"):
        UserState(tmp_path / "file").remember_last("local_1_1")

"""Logs on their way to storage."""

import threading
from pathlib import Path

import pytest

from afo.logs import upload
from afo.logs.capped import CappedLog
from afo.logs.upload import LogUploader
from fake_master import until


def test_uploads_what_changed_and_everything_at_the_end(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "stdout")
    uploader = LogUploader(str(tmp_path / "up"), {"stdout": log}, every_s=0.01)
    uploader.start()
    log.feed(b"one\n")
    copy = tmp_path / "up" / "stdout"
    until(lambda: copy.exists() and copy.read_bytes() == b"one\n", "a first copy")
    log.feed(b"two\n" * upload.LIVE_BYTES)
    assert uploader.finish(60)
    assert copy.stat().st_size == 4 + 4 * upload.LIVE_BYTES
    log.close()


def test_what_was_copied_whole_is_not_written_again(tmp_path: Path) -> None:
    """Who is being ended may not come to the end of it, and leaves half a file."""
    log = CappedLog(tmp_path / "stdout")
    uploader = LogUploader(str(tmp_path / "up"), {"stdout": log}, every_s=60)
    uploader.start()
    log.feed(b"x" * 2 * upload.LIVE_BYTES)
    assert uploader.copy(60)
    copied = (tmp_path / "up" / "stdout").stat()
    assert copied.st_size == 2 * upload.LIVE_BYTES
    assert uploader.finish(60)
    assert (tmp_path / "up" / "stdout").stat().st_ino == copied.st_ino
    log.close()


def test_storage_that_hangs_stops_neither_output_nor_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, release = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        hangs.set()
        release.wait(60)
        raise OSError("gone")

    monkeypatch.setattr(upload.storage, "open_output", hang)
    log = CappedLog(tmp_path / "stdout")
    uploader = LogUploader(str(tmp_path / "up"), {"stdout": log}, every_s=0.01)
    uploader.start()
    log.feed(b"x")
    assert hangs.wait(60)
    log.feed(b"more")
    assert log.total == 5
    assert not uploader.finish(0.0)
    release.set()
    assert uploader.finish(60)
    log.close()

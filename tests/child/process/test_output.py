"""Output kept within a cap, its end in memory, and its way to storage."""

import contextlib
import os
import re
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.logs import upload
from afo.logs.capped import CappedLog, LastLines
from afo.logs.upload import LogUploader
from afo_child.process.progress import MAX_LINE, ProgressReader
from afo_child.process.pump import Pump
from fake_master import until

GAP = re.compile(rb"\n\[afo: bytes (\d+) to (\d+) are left out\]\n")


def rebuilt(excerpt: bytes, whole: bytes) -> int:
    """Check that every byte of `excerpt` stands where its gaps say; returns how many bytes of `whole` are in it."""
    position, kept, cursor = 0, 0, 0
    for gap in [*GAP.finditer(excerpt), None]:
        part = excerpt[cursor : gap.start() if gap else len(excerpt)]
        assert part == whole[position : position + len(part)]
        position, kept = position + len(part), kept + len(part)
        if gap:
            assert int(gap[1]) == position
            position, cursor = int(gap[2]), gap.end()
    assert position == len(whole)
    return kept


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60)), st.integers(8, 200), st.integers(4, 300))
def test_keeps_beginning_and_end_within_the_cap(chunks: list[bytes], cap: int, limit: int) -> None:
    head, whole = cap // 4, b"".join(chunks)
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.closing(CappedLog(Path(directory) / "stdout", cap=cap, head=head)) as log,
    ):
        for chunk in chunks:
            log.feed(chunk)
        on_disk = sum(path.stat().st_size for path in Path(directory).iterdir())
        assert on_disk <= cap
        assert (log.total, log.dropped) == (len(whole), len(whole) - on_disk)
        everything = b"".join(log.parts(len(whole)))
        assert rebuilt(everything, whole) == on_disk
        assert everything.startswith(whole[:head])
        assert rebuilt(b"".join(log.parts(limit)), whole) <= limit


def test_a_full_disk_loses_output_and_nothing_else() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    log = CappedLog(Path("/dev/full"))
    log.feed(b"some output")
    assert "No space left" in log.failure
    assert (log.total, log.dropped) == (11, 11)
    assert b"".join(log.parts(100)) == b"\n[afo: bytes 0 to 11 are left out]\n"
    log.close()


def test_last_lines_are_cut_and_readable() -> None:
    last = LastLines(keep=1000)
    for number in range(300):
        last.feed(f"line {number}\n".encode())
    last.feed(b"\xff" + b"x" * 500)
    lines = last.lines(count=3, width=20).split("\n")
    assert lines == ["line 298", "line 299", "\ufffd" + "x" * 19]


def test_the_greeting_of_tensorflow_is_not_among_the_last_lines() -> None:
    last = LastLines()
    last.feed(
        b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        b"I0000 00:00:1795649205.890379   26541 port.cc:153] oneDNN custom operations are on. You may see slightly "
        b"different numerical results due to floating-point round-off errors\nValueError: x\n"
    )
    assert last.lines() == "ValueError: x"
    assert "oneDNN" in last.text()


def test_progress_survives_every_cut_and_every_garbage() -> None:
    text = b'{"phase":"training","step":1}\nnonsense\n\xff\xfe\n{"phase":"done","step":2}\n{"phase":"tra'
    for cut in range(len(text)):
        reader = ProgressReader()
        reader.feed(text[:cut])
        reader.feed(text[cut:])
        assert reader.newest is not None
        assert (reader.newest.phase, reader.newest.step, reader.malformed) == ("done", 2, 2)


@given(st.lists(st.binary(max_size=200)))
def test_progress_takes_any_bytes(chunks: list[bytes]) -> None:
    reader = ProgressReader()
    for chunk in chunks:
        reader.feed(chunk)


def test_an_endless_line_of_progress_takes_no_memory() -> None:
    reader = ProgressReader()
    for _ in range(100):
        reader.feed(b"x" * MAX_LINE)
    assert reader.malformed >= 50
    reader.feed(b'\n{"phase":"done"}\n')
    assert reader.newest is not None


def test_the_pump_moves_everything_and_ends() -> None:
    (reader, writer), taken = os.pipe(), bytearray()
    pump = Pump({reader: taken.extend})
    pump.start()
    os.write(writer, b"a" * 1000)
    os.close(writer)
    pump.join(60)
    assert bytes(taken) == b"a" * 1000


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

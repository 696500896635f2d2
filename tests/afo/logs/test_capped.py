"""Output kept within a cap, and its end in memory."""

import contextlib
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.logs.capped import CappedLog, LastLines

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

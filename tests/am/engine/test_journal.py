"""The journal where descriptors are short, or the disk is full."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from afo.errors import NoSpaceLeft
from afo.events import event_log
from afo.job.paths import JobPaths
from afo.storage import patience
from afo_am.engine import journal

#: Takes all descriptors there are, gives them back half a second later, and writes meanwhile.
SCRIPT = """
import os, resource, sys, threading
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo_am.engine.journal import Journal

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
paths = JobPaths(sys.argv[1], "local_1_0001")
journal = Journal(paths, 1, 1, 0)
journal.write([(ev.KillRequested(user="alice", reason="first"), 1.0)])
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    timer = threading.Timer(0.5, lambda: [os.close(each) for each in taken])
timer.start()
journal.write([(ev.KillRequested(user="alice", reason="second"), 2.0)])
timer.join()
"""


def test_a_write_waits_for_a_descriptor_and_comes_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "trying again: cannot append to" in done.stderr
    records = event_log.read_log(JobPaths(str(tmp_path), "local_1_0001").events)
    assert [getattr(record.event, "reason", "") for record in records] == ["first", "second"]


def test_a_start_waits_for_room_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST_PAUSE_S", 0.01)
    directory, full = tmp_path / "local_1_0001", [True, True]
    sync = os.fsync

    def with_room(descriptor: int) -> None:
        if full and full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", with_room)
    assert journal.await_room(str(directory), 60.0) == "disk_full"
    assert journal.await_room(str(directory), 60.0) == ""
    assert not full
    assert (stat.S_IMODE(directory.stat().st_mode), list(directory.iterdir())) == (0o700, [])
    full += [True] * 1000
    with pytest.raises(NoSpaceLeft, match=r"local_1_0001.*: No space left on device"):
        journal.await_room(str(directory), 0.05)
    assert list(directory.iterdir()) == []

"""`on_end`: the user's command after the verdict, which changes nothing of how the job ended."""

import errno
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from afo.events.types import JobFinished
from afo.job import Data, Job, RoleSpec
from afo.job.paths import JobPaths
from afo_am.engine.end_hook import run_end_hook
from afo_am.runtime.base import FinalState
from afo_am.runtime.master_log import DESCRIPTOR

SHOW = """
import json, os, sys
facts = {name: os.environ[f"AFO_JOB_{name}"] for name in ("ID", "NAME", "DIR", "STATE", "CAUSE")}
print(json.dumps({**facts, "metrics": json.load(open("verdict.json"))["metrics"], "arguments": sys.argv[1:]}))
"""


def finished(state: FinalState = "SUCCEEDED") -> JobFinished:
    return JobFinished(
        state=state, cause="succeeded", diagnostics="", metrics={"auc": 0.75}, samples=1, step=1, seconds=1.0,
        core_hours=0.0, memory_gb_hours=0.0, restarts=0,
    )  # fmt: skip


def lines_of(caplog: pytest.LogCaptureFixture, *command: str) -> list[str]:
    job = Job(name="a 'job'", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(train=("a",)), on_end=command)
    with caplog.at_level(logging.INFO, "afo.am"):
        run_end_hook(job, finished(), JobPaths("/jobs", "local_1_0001"))
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_it_is_told_how_the_job_ended(caplog: pytest.LogCaptureFixture) -> None:
    shown, ended = lines_of(caplog, "python", "-c", SHOW, "$HOME; ls")
    assert json.loads(shown.removeprefix("INFO on_end: ")) == {
        "ID": "local_1_0001", "NAME": "a 'job'", "DIR": "/jobs/local_1_0001", "STATE": "SUCCEEDED",
        "CAUSE": "succeeded", "metrics": {"auc": 0.75}, "arguments": ["$HOME; ls"],
    }  # fmt: skip
    assert ended == "INFO on_end: ended with 0"


def test_its_failure_is_in_the_log_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(caplog, sys.executable, "-c", "print('no route'); raise SystemExit(3)")
    assert lines == ["INFO on_end: no route", "ERROR on_end: ended with 3"]


def test_a_program_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    first, last = lines_of(caplog, "no-such-program")
    assert "cannot start no-such-program" in first
    assert last == "ERROR on_end: ended with 127"


def test_a_full_disk_is_told_to_the_log_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has ended, and its AM has still to say so to YARN."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert lines_of(caplog, "pwd") == ["ERROR on_end: cannot start pwd: [Errno 28] No space left on device"]


def test_it_is_not_told_of_a_descriptor_that_it_does_not_have(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DESCRIPTOR, "7")
    shown, _ = lines_of(caplog, "python", "-c", f"import os; print(os.environ.get({DESCRIPTOR!r}, 'nothing'))")
    assert shown == "INFO on_end: nothing"


def test_its_directory_is_gone_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    shown, _ = lines_of(caplog, "pwd")
    assert not Path(shown.removeprefix("INFO on_end: ")).exists()

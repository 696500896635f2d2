"""Ends that the Application Master names: real jobs of small programs on the `local` runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from afo.events import types as ev
from afo.failures.causes import CAUSES
from live_job import LiveJob, afo

Write = Callable[..., Path]
FOREVER = "import signal\nwhile True: signal.pause()\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a program and its job file, with one worker unless told otherwise."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))

    def make(program: str, **keys: Any) -> Path:
        (tmp_path / "program.py").write_text(program)
        job = {"name": "causes", "program": "program.py", "roles": {"worker": {}}, **keys}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        return tmp_path / "job.yaml"

    return make


def submit(job_file: Path) -> LiveJob:
    """The job, begun."""
    return LiveJob.submit(job_file, str(job_file.parent / "jobs"), "--runtime", "local")


def causes(job: LiveJob, role: str) -> list[str]:
    """Of the ends of a role's attempts."""
    return [event.cause for event in job.events(ev.TaskEnded) if event.task.role == role]


#: The chief is done as soon as a file is there; the others never are.
SERVED = """
import json, os, sys, time
if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "chief":
    while not os.path.exists(sys.argv[1]): time.sleep(0.1)
    sys.exit(0)
"""


@pytest.mark.slow
def test_a_child_that_is_killed_and_one_that_falls_silent(write: Write, tmp_path: Path) -> None:
    go = tmp_path / "go"
    roles = {"chief": {}, "worker": {}}
    job = submit(write(SERVED + FOREVER, args=[str(go)], roles=roles, ends_with="chief", restart={"scope": "task"}))
    wait_for_attempt(job, 1)
    job.kill(job.child("worker", 0))
    wait_for_attempt(job, 2)
    job.child("worker", 0).suspend()
    wait_for_attempt(job, 3)
    go.touch()
    assert job.verdict().cause == "succeeded"
    assert causes(job, "chief") == ["succeeded"]
    assert causes(job, "worker") == ["container_lost", "child_silent", "ended_with_job"], job.story()
    job.wait_for_no_process()


def wait_for_attempt(job: LiveJob, number: int) -> None:
    """Until the worker's Child of this attempt, the first is 1, has registered."""
    workers = lambda: [e for e in job.events(ev.TaskRegistered) if e.task.role == "worker"]  # noqa: E731
    job.wait(lambda: len(workers()) == number, f"attempt {number} of the worker")


@pytest.mark.slow
def test_an_am_that_is_stopped_is_started_again_and_so_are_tasks_that_did_not_wait(write: Write) -> None:
    job = submit(write(FOREVER, timeouts={"orphan": "5s"}))
    wait_for_attempt(job, 1)
    job.master().suspend()
    wait_for_attempt(job, 2)
    assert [event.incarnation for event in job.events(ev.AmStarted)] == [1, 2]
    assert causes(job, "worker") == ["orphaned"], job.story()
    afo("kill", job.id)
    assert job.verdict().cause == "killed_by_user"
    job.wait_for_no_process()


def test_a_job_that_takes_too_long(write: Write) -> None:
    job = submit(write(FOREVER, timeouts={"job": "3s"}))
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("FAILED", "job_timeout"), job.story()
    assert "`timeouts.job`" in verdict.diagnostics
    job.wait_for_no_process()


def test_what_is_shown_names_task_host_evidence_and_advice(write: Write) -> None:
    job_file = write("open('/no/such/file')\n")
    done = afo("submit", str(job_file), "--runtime", "local", "--wait")
    assert done.returncode == 1
    job = LiveJob(done.stdout.split()[0], str(job_file.parent / "jobs"))
    (registered,) = job.events(ev.TaskRegistered)
    for shown in (done.stdout + done.stderr, afo("explain", job.id).stdout):
        for part in (
            "file_not_found", f"worker:0 (attempt 0) on {registered.host}: ", f"worker:0 on {registered.host}: ",
            "  | FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'",
            CAUSES["file_not_found"].advice,
        ):  # fmt: skip
            assert part in shown, shown

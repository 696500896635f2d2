"""Jobs on this machine: started, looked at and ended by files and processes alone."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from msgspec.structs import replace

from afo import __version__
from afo.errors import NoSpaceLeft, NotFound, SpecError, StorageError
from afo.formats import json_file, units
from afo.job import Environment, Job
from afo.job.paths import JobPaths
from afo.job_dir.local_job import am_lock
from afo.process import pidfile
from afo.protocol.am_config import AmConfig
from afo.protocol.child_config import ChildConfig
from afo.site.config import Config, Setting, load_config
from afo_client.runtimes.local import run
from afo_client.runtimes.local.local_jobs import LocalJobs

SECRET = "ab" * 32


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.05)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "jobs with a 'space'"


@pytest.fixture
def config(root: Path) -> AmConfig:
    job = msgspec.convert(
        {"name": "ä b", "roles": {"ps": {}, "worker": {}}, "data": {"schema": "s", "train": ["x"]}},
        Job,
        dec_hook=units.parse_quantity,
    )
    return AmConfig(
        job=job, user="me", afo_version=__version__, runtime="local", jobs_root=str(root),
        train_files=("x",), secret_file="", schema_file="",
    )  # fmt: skip


@pytest.fixture
def jobs(root: Path) -> LocalJobs:
    roots = Setting(str(root), "test")
    return LocalJobs(Config("", Setting("local", "test"), roots, roots, root))


def test_a_job_is_found_by_its_mark(root: Path, config: AmConfig, jobs: LocalJobs) -> None:
    assert jobs.find_marked("ab-1") is None
    for number in (1, 2):
        folder = root / f"local_{number}_1" / "am"
        folder.mkdir(parents=True)
        json_file.write_private(folder / "am-config.json", msgspec.structs.replace(config, once=f"ab-{number}"))
    assert [jobs.find_marked(f"ab-{number}") for number in (1, 2, 3)] == ["local_1_1", "local_2_1", None]


def test_a_job_that_has_no_room_leaves_nothing(root: Path, config: AmConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json_file, "write_private", without_room)
    with pytest.raises(NoSpaceLeft, match=r"cannot start a job in .+No space left on device"):
        run.start(config, schema="", secret=SECRET)
    assert list(root.iterdir()) == []


@pytest.fixture
def fake_am(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts a supervisor and AM of one line of Python in place of ours."""

    def install(code: str) -> None:
        monkeypatch.setattr(run, "_command", lambda folder: [sys.executable, "-c", code, str(folder)])

    yield install
    until(lambda: not [each for each in psutil.process_iter() if _works_for(each, tmp_path)])


def _works_for(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_what_is_started_is_private_and_complete(
    config: AmConfig, root: Path, fake_am: Callable[[str], None], jobs: LocalJobs
) -> None:
    fake_am("print('hello')")
    job_id = run.start(config, schema="features: {}\n", secret=SECRET)
    folder = root / job_id / "am"
    written = json_file.read(folder / "am-config.json", AmConfig)
    assert written.job_id == job_id
    assert Path(written.secret_file).read_text() == SECRET
    assert Path(written.schema_file).read_text() == "features: {}\n"
    assert Path(written.secret_file).stat().st_mode & 0o777 == 0o400
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0
    until(lambda: jobs.application(job_id).final)
    assert (root / job_id / "logs" / "am" / "1" / "stdout").read_text() == "hello\n"


def test_a_job_runs_without_its_client_and_its_end_without_verdict_is_said(
    config: AmConfig, fake_am: Callable[[str], None], jobs: LocalJobs
) -> None:
    fake_am("import os, sys, time; print('the reason', file=sys.stderr, flush=True); time.sleep(600)")
    job_id = run.start(config, schema="", secret=SECRET)
    lock = am_lock(JobPaths(config.jobs_root, job_id))
    until(lambda: pidfile.pid_of(lock))
    assert jobs.application(job_id).state == "RUNNING"
    assert [each.job_id for each in jobs.applications()] == [job_id]
    pid = pidfile.pid_of(lock)
    assert pid is not None
    assert os.getsid(pid) == pid != os.getsid(0)
    until(lambda: "the reason" in (lock.parent.parent / "logs/am/1/stderr").read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: jobs.application(job_id).final == "FAILED")
    assert "the reason" in jobs.application(job_id).diagnostics


@pytest.mark.parametrize("orphaned", [False, True])
def test_kill_ends_supervisor_and_containers(
    config: AmConfig, root: Path, fake_am: Callable[[str], None], jobs: LocalJobs, orphaned: bool
) -> None:
    fake_am("import sys, time; print('error: the journal is damaged', file=sys.stderr, flush=True); time.sleep(600)")
    job_id = run.start(config, schema="", secret=SECRET)
    container = root / job_id / "containers" / "worker-0-0"
    container.mkdir(parents=True)
    command = [sys.executable, "-c", "import time; time.sleep(600)", str(container)]
    out = container / "out"
    pidfile.start(command, container / "lock", env=os.environ, stdout=out, stderr=out)
    until(lambda: pidfile.pid_of(container / "lock"))
    if orphaned:
        lock = root / job_id / "am" / "lock"
        until(lambda: "damaged" in (lock.parent.parent / "logs/am/1/stderr").read_text())
        pidfile.send_signal(lock, signal.SIGKILL)
        until(lambda: jobs.application(job_id).state == "ORPHANED")
        assert jobs.application(job_id).final == ""
        assert "its last words: error: the journal is damaged" in jobs.application(job_id).diagnostics
    jobs.kill(job_id)
    assert not pidfile.alive(container / "lock")
    assert jobs.application(job_id).final == "KILLED"
    jobs.kill(job_id)


def test_unknown_and_foreign_jobs(config: AmConfig, jobs: LocalJobs) -> None:
    assert jobs.applications() == []
    with pytest.raises(NotFound):
        jobs.application("local_1_1")
    with pytest.raises(NotFound, match="local_1_1"):
        jobs.kill("local_1_1")
    with pytest.raises(StorageError, match=r"jobs_root\.local"):
        run.start(msgspec.structs.replace(config, jobs_root="hdfs://h:1/jobs"), schema="", secret=SECRET)


def test_dry_run_writes_nothing(config: AmConfig, root: Path) -> None:
    context = run.dry_run(config)
    child = msgspec.convert(context["child_config"], ChildConfig, dec_hook=units.parse_quantity)
    assert child.runtime == "local"
    assert SECRET not in str(context)
    assert not root.exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"python": "/x/env.tar.gz"},
            r"\$\.environment\.python: /x/env\.tar\.gz .*only YARN unpacks",
        ),
        (
            {"docker": {"image": "ads/ctr:1"}},
            r"\$\.environment\.docker: only YARN .*ads/ctr:1.*--set",
        ),
    ],
)
def test_what_only_yarn_does_is_refused(config: AmConfig, environment: dict[str, Any], message: str) -> None:
    refused = replace(config, job=replace(config.job, environment=msgspec.convert(environment, Environment)))
    with pytest.raises(SpecError, match=message):
        run.dry_run(refused)
    with pytest.raises(SpecError, match=message):
        LocalJobs(load_config("local")).check(refused, "")

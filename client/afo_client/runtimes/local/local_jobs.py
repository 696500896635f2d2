"""Jobs of the `local` runtime, as their files and processes show them."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from afo.errors import AfoError, NotFound, WaitTimeout, in_words
from afo.events.types import JobFinished
from afo.formats import json_file
from afo.formats.decoding import MOST_BYTES
from afo.job.paths import JobPaths
from afo.job_dir.last_words import MOST_BYTES as LOG_BYTES
from afo.job_dir.last_words import end_words, last_words
from afo.job_dir.local_job import KILLED, am_dir, am_lock, container_locks, state_of
from afo.process import pidfile
from afo.protocol.am_config import AmConfig
from afo.site.config import Config
from afo.storage.regular_file import read_end, read_regular
from afo.storage.url import parse
from afo.yarn.submission import AM_CONFIG
from afo_client.runtimes.application import Application
from afo_client.runtimes.local import run

#: Longer than containers have to end by themselves (see `afo_am.runtime.local`).
_GRACE_S = 25.0
_POLL_S = 0.05


class LocalJobs:
    """Jobs below the configured directory of local jobs."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def check(self, config: AmConfig, schema: str) -> None:
        """Whether this machine can make the environment of its tasks. Raises `SpecError`."""
        run.check_environment(config.job.environment)

    def submit(self, config: AmConfig, schema: str, secret: str, tell: Callable[[str], None]) -> str:
        """Start the job's supervisor, which goes on without this process."""
        return run.start(config, schema=schema, secret=secret)

    def dry_run(self, config: AmConfig, schema: str) -> dict[str, Any]:
        """The supervisor's command line, and what it would be told."""
        return run.dry_run(config)

    def application(self, job_id: str) -> Application:
        """One job. Raises `NotFound`."""
        paths = JobPaths(self._config.jobs_root("local"), job_id)
        folder = am_dir(paths)
        config = json_file.read(folder / AM_CONFIG, AmConfig)
        known = Application(
            job_id=job_id, state="RUNNING", name=config.job.name, user=config.user, started=config.submitted
        )
        state = state_of(paths)
        if state == "RUNNING":
            return known
        if state == "ORPHANED":
            words = "its Application Master is gone; `afo kill` ends its tasks now, they do so themselves before long"
            said = last_words(_end_of_log(paths))
            return replace(known, state="ORPHANED", diagnostics=f"{words}; its last words: {said}" if said else words)
        return _describe_end(known, paths, folder)

    def applications(self) -> list[Application]:
        """All jobs with a directory."""
        return [self._read_application(file.parent.parent.name) for file in self._files()]

    def _read_application(self, job_id: str) -> Application:
        """One of many: what lies in its directory must not hide the others."""
        try:
            return self.application(job_id)
        except Exception as error:  # also a fault of ours that one job's files bring to light
            return Application(job_id=job_id, state="UNREADABLE", diagnostics=in_words(error))

    def find_marked(self, mark: str) -> str | None:
        """By what its Application Master was started with."""
        files = (file for file in self._files() if _mentions(file, mark))
        return next((file.parent.parent.name for file in files if _mark_of(file) == mark), None)

    def kill(self, job_id: str) -> None:
        """End the AM at once and its containers with their grace. Raises `NotFound`, `WaitTimeout`."""
        paths = JobPaths(self._config.jobs_root("local"), job_id)
        folder, supervisor = am_dir(paths), am_lock(paths)
        if not folder.is_dir():
            raise NotFound(f"there is no job {job_id} in {folder.parent.parent}")
        if state_of(paths) in ("RUNNING", "ORPHANED"):
            (folder / KILLED).touch()
        # The AM dies with its supervisor, so no container is asked for from here on.
        pidfile.send_signal(supervisor, signal.SIGKILL)
        _await(lambda: not pidfile.alive(supervisor), f"the supervisor of {job_id}")
        locks = container_locks(paths)
        for lock in locks:
            pidfile.send_signal(lock, signal.SIGTERM)
        _await(lambda: not any(map(pidfile.alive, locks)), f"the containers of {job_id}")

    def _files(self) -> list[Path]:
        """What the Application Master of each job was started with."""
        root = Path(parse(self._config.jobs_root("local")).path)
        return sorted(root.glob(f"local_*/am/{AM_CONFIG}")) if root.is_dir() else []


def _mentions(file: Path, mark: str) -> bool:
    """Most files need not be decoded, and one of another version cannot be."""
    try:
        return mark.encode() in read_regular(file, MOST_BYTES)
    except OSError:
        return False


def _mark_of(file: Path) -> str | None:
    """The mark that an Application Master was started with, None where the file cannot be understood."""
    try:
        return json_file.read(file, AmConfig).once
    except AfoError:
        return None


def _describe_end(known: Application, paths: JobPaths, folder: Path) -> Application:
    verdict = Path(parse(paths.verdict).path)
    if verdict.exists():
        state = json_file.read(verdict, JobFinished).state
        return replace(known, state=state, final=state, ended=verdict.stat().st_mtime)
    killed = folder / KILLED
    if killed.exists():
        words = "ended by force, without its Application Master"
        return replace(known, state="KILLED", final="KILLED", diagnostics=words, ended=killed.stat().st_mtime)
    words = f"the Application Master ended without a verdict: {end_words(_end_of_log(paths))}"
    return replace(known, state="FAILED", final="FAILED", diagnostics=words)


def _end_of_log(paths: JobPaths) -> bytes:
    log = Path(parse(paths.am_log(1)).path, "stderr")
    try:
        return read_end(log, LOG_BYTES)
    except OSError as error:
        return f"cannot read {log}: {error.strerror}".encode()


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _GRACE_S
    while not condition():
        if time.monotonic() > deadline:
            raise WaitTimeout(f"{what} did not end within {_GRACE_S:.0f} s")
        time.sleep(_POLL_S)

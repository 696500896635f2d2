"""Lost jobs: the runtime is asked about silent ones; those whose Application Master ended are closed."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from afo.errors import AfoError, AlreadyExists, ClusterUnreachable, NotFound
from afo.events.job_costs import Costs
from afo.events.types import JobFinished
from afo.job.paths import JobPaths
from afo.job_dir import forced_end
from afo.job_dir.last_words import MOST_BYTES, end_words
from afo.job_dir.local_job import state_of
from afo.yarn.resource_manager import Application
from afo_history_server.model.job_history import JobHistory
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.job_store import JobStore

#: A job that was silent for so long is asked about; its AM writes more often.
SILENT_S = 60.0
#: YARN forgets old applications; one that had begun and was silent for so long, and that it does not know, is over.
FORGOTTEN_S = 3600.0
#: The AM's own verdict may come a little after YARN's.
_GRACE_S = 30.0
_FORGOTTEN = "YARN does not know the application any more"
_LOG = logging.getLogger(__name__)


class Cluster(Protocol):
    """What of a ResourceManager is needed, or of a machine that runs jobs itself."""

    def application(self, application_id: str) -> Application:
        """One application. Raises `NotFound` and `ClusterUnreachable`."""


class ThisMachine:
    """Local jobs, by the locks of their processes."""

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def application(self, application_id: str) -> Application:
        """One job; its `Application` says no more than whether it is over, and why. Raises `StorageError`."""
        paths = self._store.paths(application_id)
        state = state_of(paths)
        final = {"KILLED": "KILLED", "ENDED": "FAILED"}.get(state, "")
        return Application(
            id=application_id, user="", name="", queue="", state=final or "RUNNING", final_status=final,
            diagnostics="ended by force" if final == "KILLED" else end_words(self._end_of_log(paths)) if final else "",
        )  # fmt: skip

    def _end_of_log(self, paths: JobPaths) -> bytes:
        """What its client would show of it."""
        try:
            return self._store.files.read_end(f"{paths.am_log(1)}/stderr", MOST_BYTES)
        except AfoError as error:
            return str(error).encode()


class LostJobs:
    """Writes the verdict of a job that cannot do it itself; of two that try, one succeeds."""

    def __init__(self, store: JobStore, cluster: Callable[[], Cluster], clock: Callable[[], float] = time.time) -> None:
        self._store, self._cluster, self._clock = store, cluster, clock
        #: Jobs that this server may not read or close; it says so once.
        self._refused: set[str] = set()

    def close_all(self) -> list[str]:
        """The jobs that were closed. Raises `ClusterUnreachable`; a job that cannot be closed is passed over."""
        silent = list(self._silent(self._store.jobs().jobs))
        local, yarn = ([job.job_id for job in silent if job.runtime == name] for name in ("local", "yarn"))
        machine = ThisMachine(self._store)
        closed = [job_id for job_id in local if self._closes(job_id, machine)]
        cluster = self._cluster() if yarn else None
        return closed + [job_id for job_id in yarn if cluster and self._closes(job_id, cluster)]

    def _silent(self, jobs: Iterable[JobSummary]) -> Iterable[JobSummary]:
        now = self._clock()
        for job in jobs:
            silent = now - max(job.last_event, job.since) > SILENT_S
            if silent and job.job_id not in self._refused and not job.ended and not job.problem:
                yield job

    def _closes(self, job_id: str, cluster: Cluster) -> bool:
        try:
            return self._close(job_id, cluster)
        except ClusterUnreachable:
            raise
        except AfoError as error:
            self._refused.add(job_id)
            _LOG.warning("%s may have vanished, and cannot be closed from here: %s", job_id, error)
            return False

    def _close(self, job_id: str, cluster: Cluster) -> bool:
        job, _ = self._store.job(job_id)
        verdict = None if job.ended else self._verdict(job, cluster)
        if verdict is None:
            return False
        try:
            self._store.files.create(self._store.paths(job.job_id).verdict, msgspec.json.encode(verdict))
        except AlreadyExists:
            return False
        _LOG.warning("%s had vanished and is closed: %s", job.job_id, verdict.diagnostics)
        return True

    def _verdict(self, job: JobHistory, cluster: Cluster) -> JobFinished | None:
        """None for a job that may go on."""
        try:
            found = cluster.application(job.job_id)
        except NotFound:
            forgotten = job.started and self._clock() - job.last_event > FORGOTTEN_S
            return make_verdict(job, None) if forgotten else None
        if not found.over and not job.started:
            why = found.diagnostics.strip().partition("\n")[0]
            self._store.hear(job.job_id, f"{found.state}: {why}" if why else found.state)
        if not found.over or self._clock() - found.finished_ms / 1000 < _GRACE_S:
            return None
        return make_verdict(job, found, self._read_forced_end(job.job_id) if found.state == "KILLED" else "")

    def _read_forced_end(self, job_id: str) -> str:
        """Who had it ended without its Application Master, and why; '' where nobody kept that."""
        url = self._store.paths(job_id).kill
        try:
            return forced_end.words(self._store.files.read(url, forced_end.MOST_BYTES), url)
        except ClusterUnreachable:
            raise
        except AfoError:
            return ""


def make_verdict(job: JobHistory, found: Application | None, forced: str = "") -> JobFinished:
    """The verdict of a job that wrote none. `found`: the application that is over; None where YARN forgot it.

    `forced`: who had it ended without its Application Master.
    """
    by_user = job.state == "ENDING" and job.cause == "killed_by_user"
    killed = by_user or (found is not None and found.state == "KILLED")
    told = (job.diagnostics if by_user else "", forced)
    why = (found.diagnostics.strip() or "YARN gives no reason") if found else _FORGOTTEN
    words = f"the Application Master ended without a verdict: {why}"
    ended = found.finished_ms / 1000 if found and found.finished_ms else job.last_event
    counted = job.costs
    if found and found.vcore_seconds:  # a local job has no ResourceManager that counts
        counted = Costs(core_hours=found.vcore_seconds / 3600, memory_gb_hours=found.memory_seconds / 1024 / 3600)
    return JobFinished(
        state="KILLED" if killed else "FAILED", cause="killed_by_user" if killed else "master_lost",
        diagnostics="; ".join(filter(None, (*told, words))),
        metrics=job.metrics, samples=job.samples, step=job.step,
        seconds=max(0.0, ended - (job.started or job.submitted or ended)),
        core_hours=counted.core_hours, memory_gb_hours=counted.memory_gb_hours,
        restarts=job.restart_count, train_seconds=job.costs.train_seconds, input_wait=job.input_wait or 0.0,
        bad_records=job.data.bad, export=job.export.manifest if job.export and job.export.allowed else "",
    )  # fmt: skip

"""Periodic export: versions of the model while the job trains, each written by a process beside the chief's.

Training goes on meanwhile: the process has a lower priority, goes through files instead of memory, and one runs at a
time. One that fails is a warning, and the next one is tried at its time.
"""

import time
from typing import NamedTuple

import psutil

from afo import storage
from afo.checkpoint.manifest import Found, find_manifests, parse_name
from afo.errors import AfoError, ClusterUnreachable, PermissionDenied
from afo.job.export import BESIDE_MIB, Export
from afo.logs.task_log import LOG, one_line
from afo.protocol.offline_task import OfflineResult, OfflineTask
from afo.rpc import messages as m
from afo.train.exports.export_process import ExportProcess
from afo.train.exports.version_reports import VersionReports
from afo.train.setup import Setup

#: Seconds between two looks for a checkpoint that passes the gate, where none does at the time of an export.
_LOOK_S = 1.0
#: Seconds until the next question after one that was not answered: training waits for each, for 10 s at most.
_UNANSWERED_S = 30.0
#: An export that takes longer is ended.
_MOST_S = 3600.0


class Candidate(NamedTuple):
    """A checkpoint that may be exported, with its metrics where a gate awaited them."""

    found: Found
    metrics: dict[str, float] = {}  # noqa: RUF012 (never changed)


class PeriodicExport:
    """Of the chief, which calls `look` often, `note_checkpoint` for each one it has written, and `close` once."""

    def __init__(self, setup: Setup, reports: VersionReports) -> None:
        self._setup, self._reports = setup, reports
        self._every = setup.job.export.every
        self._process = ExportProcess(setup.work_dir / "periodic-export", self._every or 0.0)
        #: The checkpoint whose export is under way.
        self._running: Candidate | None = None
        self._exported_step = -1
        #: Whether a checkpoint may be there that was not looked at; an earlier process may have written some.
        self._is_new = True
        #: Whether it was said that memory may not do.
        self._is_warned = False
        #: Whether the Application Master did not answer last.
        self._is_unanswered = False
        self._next = time.monotonic() + (self._every or 0.0)

    @property
    def protected(self) -> tuple[str, ...]:
        """Manifests that an export under way reads."""
        return (self._running.found.url,) if self._running else ()

    def note_checkpoint(self) -> None:
        """There is a newer one."""
        self._is_new = True

    def look(self) -> None:
        """Report an export that has ended; begin one when it is time."""
        if self._every is None:
            return
        now = time.monotonic()
        if self._running is not None:
            self._look_after(self._running)
        elif now >= self._next and (self._is_new or self._setup.job.export.require):
            # Evaluations come from elsewhere: with a gate each look may find one.
            self._next, self._is_new = now + _LOOK_S, False
            if (candidate := self._choose()) is not None:
                self._begin(candidate)
                self._next = now + self._every

    def close(self) -> None:
        """End an export under way: the last one, of the final checkpoint, is another's."""
        self._process.close()
        self._running = None

    def _choose(self) -> Candidate | None:
        """The newest checkpoint that may be exported and is newer than the last one that was."""
        allowed = self._ask() if self._setup.job.export.require else None
        try:
            if allowed is None:
                newest = next(reversed(find_manifests(self._setup.task.checkpoint_url)), None)
                return Candidate(newest) if newest and newest.step > self._exported_step else None
            # It may have been deleted before it was measured.
            is_there = allowed.manifest and storage.exists(allowed.manifest)
            return Candidate(parse_name(allowed.manifest), allowed.metrics) if is_there else None
        except AfoError as error:
            LOG.warning("no checkpoint can be looked for to export: %s", one_line(str(error)))
            self._is_new = True
            return None

    def _ask(self) -> m.VersionReply:
        """What `export.require` allows; the Application Master has the evaluations."""
        setup = self._setup
        try:
            reply = setup.master.next_version(m.VersionRequest(task=setup.id, generation=setup.task.generation))
            self._is_unanswered = False
            return reply
        except (ClusterUnreachable, PermissionDenied) as error:  # another program may have got its port meanwhile
            if not self._is_unanswered:
                LOG.warning("no version is exported until the Application Master allows one: %s", one_line(str(error)))
            self._is_unanswered, self._next = True, time.monotonic() + _UNANSWERED_S
            return m.VersionReply()

    def _begin(self, candidate: Candidate) -> None:
        found = candidate.found
        self._check_memory()
        try:
            self._process.begin(self._task(found, str(self._process.work_dir)))
            self._running = candidate
        except AfoError as error:
            self._fail(found, error)

    def _check_memory(self) -> None:
        """Say once that the container may be too small for this process and the ones that export."""
        setup = self._setup
        own = psutil.Process().memory_info().rss >> 20
        role, given = setup.id.role, setup.memory >> 20
        if own + BESIDE_MIB <= given or self._is_warned:
            return
        self._is_warned = True
        LOG.warning(
            "this process takes %d MiB of the %d MiB of `roles.%s.memory`, and an export up to %d MiB beside it; YARN"
            " ends a container that takes more than it has: give it %d MiB or more",
            own, given, role, BESIDE_MIB, own + BESIDE_MIB,
        )  # fmt: skip

    def _task(self, found: Found, work_dir: str) -> OfflineTask:
        setup, wanted = self._setup, self._setup.job.export
        return OfflineTask(
            kind="export", job=setup.job, schema_file=setup.task.schema_file, manifest=found.url,
            output=setup.task.export_url, rows=wanted.rows, tables=wanted.tables, full_every=versions_between(wanted),
            keep=wanted.keep, user_features=wanted.user_features, memory=0, work_dir=work_dir,
        )  # fmt: skip

    def _look_after(self, candidate: Candidate) -> None:
        try:
            result = self._process.result()
            if result is not None:
                self._running = None
                self._report(candidate, result)
            elif self._process.seconds > _MOST_S:
                LOG.warning("an export that takes over %d s is ended", _MOST_S)
                self.close()
                self._is_new = True
        except AfoError as error:
            self._running = None
            self._fail(candidate.found, error)

    def _fail(self, found: Found, error: AfoError) -> None:
        step = f"{found.step:,}"
        LOG.warning("the checkpoint of step %s could not be exported: %s", step, one_line(str(error)))
        self._is_new = True

    def _report(self, candidate: Candidate, result: OfflineResult) -> None:
        assert result.version is not None, "it was told to write one"
        found, seconds = candidate.found, self._process.seconds
        self._exported_step = found.step
        LOG.info("exported version %d of step %s to %s in %.1f s", result.version, f"{found.step:,}",
                 storage.join(self._setup.task.export_url, str(result.version)), seconds)  # fmt: skip
        self._reports.report(found, result.version, result.parent, result.bytes, seconds, candidate.metrics)


def versions_between(wanted: Export) -> int:
    """One in how many versions is whole."""
    return wanted.full_every if wanted.deltas else 1

"""Periodic export: versions of the model while the job trains, each written by a process beside the chief's.

Training goes on meanwhile: the process has a lower priority, goes through files instead of memory, and one runs at a
time. One that fails is a warning, and the next one is tried at its time.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from afo import storage
from afo.checkpoint.manifest import Found, find_manifests, read_evaluation, read_manifest
from afo.errors import AfoError, DataError, NotFound
from afo.formats import decoding
from afo.job.export import Export
from afo.job_dir.lineage import Evaluation
from afo.logs.task_log import LOG, one_line
from afo.protocol.export_gate import add_drops, check, falls, refusals
from afo.protocol.offline_task import RESULT, OfflineResult, OfflineTask, write_task
from afo.rpc import messages as m
from afo.train.setup import Setup

#: Seconds between two looks for a checkpoint that passes the gate, where none does at the time of an export.
_LOOK_S = 1.0
#: An export that takes longer is ended.
_MOST_S = 3600.0
_NICENESS = 10
#: Seconds in which a process that was asked to end has to.
_END_S = 10.0
_LOG_TAIL = 2000


class _Running(NamedTuple):
    """An export under way."""

    manifest: Found
    process: "subprocess.Popen[bytes]"
    directory: Path
    began: float


class PeriodicExport:
    """Of the chief, which calls `look` often, `note_checkpoint` for each one it has written, and `close` once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._every = setup.job.export.every
        self._running: _Running | None = None
        self._exported_step = -1
        #: Whether a checkpoint may be there that was not looked at; an earlier process may have written some.
        self._is_new = True
        #: Manifests for which `export.require` does not hold, as far as they are there.
        self._refused: set[str] = set()
        self._next = time.monotonic() + (self._every or 0.0)

    @property
    def protected(self) -> tuple[str, ...]:
        """Manifests that an export under way reads."""
        return (self._running.manifest.url,) if self._running else ()

    def note_checkpoint(self) -> None:
        """There is a newer one."""
        self._is_new = True

    def look(self) -> None:
        """Report an export that has ended; begin one when it is time."""
        if self._every is None:
            return
        now = time.monotonic()
        if self._running is not None:
            self._look_after(self._running, now)
        elif now >= self._next and (self._is_new or self._setup.job.export.require):
            # Evaluations come from elsewhere: with a gate each look may find one.
            self._next, self._is_new = now + _LOOK_S, False
            if (found := self._choose()) is not None:
                self._begin(found)
                self._next = now + self._every

    def close(self) -> None:
        """End an export under way: the last one, of the final checkpoint, is another's."""
        if self._running is None:
            return
        running, self._running = self._running, None
        running.process.terminate()
        try:
            running.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        shutil.rmtree(running.directory, ignore_errors=True)

    def _choose(self) -> Found | None:
        """The newest checkpoint that may be exported and is newer than the last one that was."""
        try:
            manifests = find_manifests(self._setup.task.checkpoint_url)
            self._refused &= {found.url for found in manifests}
            newer = [each for each in manifests if each.step > self._exported_step and each.url not in self._refused]
            return next((found for found in reversed(newer) if self._passes(found)), None)
        except AfoError as error:
            LOG.warning("no checkpoint can be looked for to export: %s", one_line(str(error)))
            self._is_new = True
            return None

    def _passes(self, found: Found) -> bool:
        """Whether `export.require` holds for a checkpoint; not where it was not evaluated, or is gone meanwhile."""
        require = self._setup.job.export.require
        if not require:
            return True
        try:
            evaluation, lineage = read_evaluation(found.url), read_manifest(found.url).lineage
        except NotFound:
            return False
        if evaluation is None:
            return False
        before = (lineage.before.evaluation if lineage else None) or Evaluation(metrics={}, coverage={})
        metrics = add_drops(evaluation.metrics, evaluation.coverage, before.metrics, before.coverage)
        reasons = refusals(check(require, metrics, falls(before.coverage, evaluation.coverage, 1)))
        if reasons:
            LOG.info("the checkpoint of step %s is not exported: %s", f"{found.step:,}", "; ".join(reasons))
            self._refused.add(found.url)
        return not reasons

    def _begin(self, found: Found) -> None:
        directory = self._setup.work_dir / "periodic-export"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)
        program = write_task(self._task(found, str(directory)))
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
        with (directory / "stderr").open("wb") as words:
            process = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment)
        psutil.Process(process.pid).nice(_NICENESS)
        self._running = _Running(found, process, directory, time.monotonic())

    def _task(self, found: Found, work_dir: str) -> OfflineTask:
        setup, wanted = self._setup, self._setup.job.export
        return OfflineTask(
            kind="export", job=setup.job, schema_file=setup.task.schema_file, manifest=found.url,
            output=setup.task.export_url, rows=wanted.rows, tables=wanted.tables, full_every=versions_between(wanted),
            keep=wanted.keep, user_features=wanted.user_features, memory=0, work_dir=work_dir,
        )  # fmt: skip

    def _look_after(self, running: _Running, now: float) -> None:
        if running.process.poll() is None:
            if now - running.began > _MOST_S:
                LOG.warning("an export that takes over %d s is ended", _MOST_S)
                self.close()
                self._is_new = True
            return
        self._running = None
        try:
            self._report(running, _result(running))
        except AfoError as error:
            step = f"{running.manifest.step:,}"
            LOG.warning("the checkpoint of step %s could not be exported: %s", step, one_line(str(error)))
            self._is_new = True
        shutil.rmtree(running.directory, ignore_errors=True)

    def _report(self, running: _Running, result: OfflineResult) -> None:
        assert result.version is not None, "it was told to write one"
        found, seconds = running.manifest, time.monotonic() - running.began
        self._exported_step = found.step
        LOG.info("exported version %d of step %s to %s in %.1f s", result.version, f"{found.step:,}",
                 storage.join(self._setup.task.export_url, str(result.version)), seconds)  # fmt: skip
        self._setup.master.report_version(
            m.VersionReport(
                task=self._setup.id, generation=self._setup.task.generation, version=result.version,
                parent=result.parent, step=found.step, manifest=found.url, bytes=result.bytes, seconds=seconds,
            )
        )  # fmt: skip


def versions_between(wanted: Export) -> int:
    """One in how many versions is whole."""
    return wanted.full_every if wanted.deltas else 1


def _result(running: _Running) -> OfflineResult:
    """Raises DataError for a process that ended otherwise, and the error that it met."""
    try:
        result = decoding.read(str(running.directory / RESULT), OfflineResult)
    except NotFound as error:
        said = (running.directory / "stderr").read_text(errors="replace")[-_LOG_TAIL:]
        raise DataError(f"its process ended with {running.process.returncode}; it said: {said}") from error
    if result.error is not None:
        raise DataError(": ".join(result.error))
    return result

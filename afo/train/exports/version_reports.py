"""Reports of the versions that a job exports: each one once, also one whose chief did not live to report it.

A chief may be killed while the process beside it renames what it wrote: the version is live, and nobody told of it. So
whoever is chief next looks for such ones when it starts, and before each report of its own. They are told by their
descriptions, which name the job and its checkpoint: what others wrote into the directory is not looked at further.
"""

from afo import storage
from afo.checkpoint.manifest import Found, parse_name
from afo.errors import AfoError, ClusterUnreachable, NotFound
from afo.logs.task_log import LOG, one_line
from afo.rpc import messages as m
from afo.storage.url import parse
from afo.train.setup import Setup
from afo.trainable.served import export_info, export_versions
from afo.trainable.served.export_versions import Version

#: So many versions are looked at, the newest ones: training waits meanwhile.
_MOST_LOOKED_AT = 100


class VersionReports:
    """Of the chief, which calls `begin` once, and `report` for each version that it has exported."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        #: Versions up to this one were reported or looked at.
        self._after = 0

    def begin(self, known: int) -> None:
        """Report the versions after `known`, the last one that the Application Master was told of."""
        self._after = known
        if self._setup.job.export.every is not None:
            self._report_found(export_versions.MOST_NUMBER + 1)

    def report(
        self, found: Found, version: int, parent: int | None, size: int, seconds: float,
        metrics: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Tell of a version of the checkpoint `found`, after those before it that were not told of."""
        self._report_found(version)
        setup = self._setup
        setup.master.report_version(
            m.VersionReport(
                task=setup.id, generation=setup.task.generation, version=version, parent=parent, step=found.step,
                manifest=found.url, bytes=size, seconds=seconds, metrics=metrics or {},
            )
        )  # fmt: skip
        self._after = max(self._after, version)

    def _report_found(self, before: int) -> None:
        try:
            reports = self._find(before)
        except AfoError as error:
            LOG.warning("whether a version was exported and not reported is not known: %s", one_line(str(error)))
            return
        for report in reports:
            LOG.info("version %d of step %s was exported by a chief that ended before it could report it",
                     report.version, f"{report.step:,}")  # fmt: skip
            self._setup.master.report_version(report)

    def _find(self, before: int) -> list[m.VersionReport]:
        """Of the job's versions after the last one that was looked at, old to new."""
        numbers = export_versions.list_numbers(self._setup.task.export_url)
        new = [number for number in numbers if self._after < number < before]
        if len(new) > _MOST_LOOKED_AT:
            LOG.info("%s holds %d versions that this job did not report; the newest %d are looked at",
                     self._setup.task.export_url, len(new), _MOST_LOOKED_AT)  # fmt: skip
        reports = [report for number in new[-_MOST_LOOKED_AT:] if (report := self._look_at(number))]
        self._after = new[-1] if new else self._after
        return reports

    def _look_at(self, number: int) -> m.VersionReport | None:
        """None where it is no version of this job, or cannot be read. Raises ClusterUnreachable: it may be later."""
        url = storage.join(self._setup.task.export_url, str(number))
        try:
            version = Version(number, url, export_info.read(url))
            return self._describe(version) if self._is_own(version) else None
        except NotFound:
            return None
        except ClusterUnreachable:
            raise
        except AfoError as error:
            LOG.warning("whose version %s is, is not known: %s", url, one_line(str(error)))
            return None

    def _is_own(self, version: Version) -> bool:
        task, exported = self._setup.task, version.exported
        if exported.lineage is not None and exported.lineage.own.job_id != task.job_id:
            return False
        place = exported.manifest.rpartition("/")[0]
        return bool(place) and place == parse(task.checkpoint_url).url

    def _describe(self, version: Version) -> m.VersionReport:
        setup, exported = self._setup, version.exported
        return m.VersionReport(
            task=setup.id, generation=setup.task.generation, version=version.number, parent=exported.parent,
            step=parse_name(exported.manifest).step, manifest=exported.manifest, bytes=_size(version.url), seconds=None,
        )  # fmt: skip


def _size(url: str) -> int:
    """Of a SavedModel, whose files lie in its directory and in those below it."""
    top = storage.list_dir(url)
    below = [file for entry in top if entry.is_dir for file in storage.list_dir(entry.url)]
    return sum(entry.size for entry in (*top, *below) if not entry.is_dir)

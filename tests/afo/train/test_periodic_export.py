"""Versions while a job trains: which checkpoint, by a process of its own, one at a time."""

import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from afo.errors import ClusterUnreachable, SpecError
from afo.events import types as ev
from afo.formats.units import Duration
from afo.job import Export, RoleSpec
from afo.rpc import messages as m
from afo.trainable.served.export_versions import list_versions
from afo_am.state.version_gate import VersionGate
from incremental_versions import ExportedVersions
from training_job import wait_until

pytestmark = pytest.mark.tensorflow

EVERY = Export(every=Duration(0.01), deltas=True, tables="native", full_every=4, keep=5)


class Exporting:
    """The exporter of a chief whose checkpoints a test writes."""

    def __init__(self, directory: Path, export: Export, memory_mib: int = 1 << 20) -> None:
        from afo.train.exports.periodic_export import PeriodicExport
        from afo.train.exports.version_reports import VersionReports

        self.versions = ExportedVersions(directory)
        self.gate = VersionGate(export)
        self.away: list[ClusterUnreachable] = []
        self.reports: list[m.VersionReport] = []
        job = self.versions.model.parts.job
        job = msgspec.structs.replace(
            job, export=export, data=msgspec.structs.replace(job.data, eval=("x",)),
            roles={**job.roles, "evaluator": RoleSpec()},
        )  # fmt: skip
        task = SimpleNamespace(
            checkpoint_url=str(directory / "checkpoints"), export_url=str(self.versions.base_path), generation=1,
            schema_file=str(directory / "schema.yaml"), job_id="application_1_0001",
        )  # fmt: skip
        self.setup: Any = SimpleNamespace(
            job=job, task=task, memory=memory_mib << 20, work_dir=directory / "work",
            id=m.TaskId(role="worker", index=0, attempt=0),
            master=SimpleNamespace(report_version=self.reports.append, next_version=self._next_version),
        )  # fmt: skip
        self.exporter: Any = PeriodicExport(self.setup, VersionReports(self.setup))

    def checkpoint(self, value: float, auc: float | None = None) -> str:
        manifest = self.versions.chain.save({1: value})
        self.exporter.note_checkpoint()
        if auc is not None:
            evaluator = m.TaskId(role="evaluator", index=0, attempt=0)
            self.gate.take(ev.Evaluated(task=evaluator, step=1, manifest=manifest, metrics={"auc": auc}, final=False))
        return manifest

    def _next_version(self, request: m.VersionRequest) -> m.VersionReply:
        for error in self.away:
            raise error
        window = self.gate.candidate
        return m.VersionReply(manifest=window[-1].manifest, metrics=window[-1].metrics) if window else m.VersionReply()

    def reports_after(self, count: int) -> list[m.VersionReport]:
        def are_there() -> bool:
            self.exporter.look()
            return len(self.reports) >= count

        wait_until(are_there, f"{count} versions")
        return self.reports


def is_exporting(process: psutil.Process) -> bool:
    try:
        return "afo.train.offline" in " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return False  # of other tests: what was waited for is none


@pytest.fixture
def no_process_is_left() -> Any:
    yield
    assert [child for child in psutil.Process().children() if is_exporting(child)] == []


@pytest.mark.usefixtures("no_process_is_left")
def test_each_newer_checkpoint_becomes_a_version_until_the_job_ends(tmp_path: Path) -> None:
    exporting = Exporting(tmp_path, EVERY)
    exporting.exporter.look()
    assert exporting.exporter.protected == ()  # there is no checkpoint yet
    first = exporting.checkpoint(1.0)
    [report] = exporting.reports_after(1)
    assert (report.manifest, report.parent, report.step) == (first, None, 10)
    for _ in range(3):
        time.sleep(0.02)
        exporting.exporter.look()
    assert exporting.exporter.protected == ()  # it is exported already
    second = exporting.checkpoint(2.0)
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    assert exporting.exporter.protected == (second,)
    report = exporting.reports_after(2)[1]
    assert (report.manifest, report.parent) == (second, exporting.reports[0].version)
    assert report.bytes > 0
    assert [each.number for each in list_versions(str(exporting.versions.base_path))] == [
        each.version for each in exporting.reports
    ]
    exporting.checkpoint(3.0)
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    exporting.exporter.close()
    assert len(exporting.reports) == 2
    assert not (tmp_path / "work" / "periodic-export").exists()


def test_where_nothing_was_saved_nothing_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from afo.train.exports import periodic_export

    looks: list[str] = []
    monkeypatch.setattr(periodic_export, "find_manifests", lambda url: looks.append(url) or [])
    exporting = Exporting(tmp_path, EVERY)
    for number in range(4):
        exporting.exporter._next = 0.0
        exporting.exporter.look()
        if number == 1:
            exporting.exporter.note_checkpoint()
    assert len(looks) == 2


def test_a_checkpoint_that_was_not_measured_or_is_not_good_enough_is_no_version(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporting = Exporting(tmp_path, msgspec.structs.replace(EVERY, require={"auc": ">=0.7"}))
    choose = exporting.exporter._choose
    exporting.checkpoint(0.5)
    assert choose() is None
    good = exporting.checkpoint(1.0, auc=0.71)
    exporting.checkpoint(2.0)  # the evaluator is not there yet
    assert (choose().found.url, choose().metrics) == (good, {"auc": 0.71})
    exporting.checkpoint(3.0, auc=0.69)
    assert choose().found.url == good
    exporting.away.append(ClusterUnreachable("nobody answers"))
    with caplog.at_level("WARNING", logger="afo"):
        assert [choose(), choose()] == [None, None]
    assert caplog.text.count("until the Application Master allows one: nobody answers") == 1
    exporting.away.clear()
    exporting.exporter._next = 0.0
    better = exporting.checkpoint(4.0, auc=0.7)
    [report] = exporting.reports_after(1)
    assert (report.manifest, report.metrics) == (better, {"auc": 0.7})
    exporting.exporter.close()
    gone = exporting.checkpoint(5.0, auc=0.8)
    Path(gone).unlink()
    assert choose() is None


def test_an_export_that_fails_is_said_and_the_next_one_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporting = Exporting(tmp_path, EVERY)
    exporting.checkpoint(1.0)
    exporting.versions.base_path.write_text("in the way")

    def is_said() -> bool:
        exporting.exporter.look()
        return "could not be exported" in caplog.text

    with caplog.at_level("WARNING", logger="afo"):
        wait_until(is_said, "the failure")
    exporting.exporter.close()
    exporting.versions.base_path.unlink()
    assert exporting.reports_after(1)[0].step == 10
    exporting.exporter.close()


@pytest.mark.usefixtures("no_process_is_left")
def test_all_exports_are_of_one_process_and_of_another_once_it_was_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporting = Exporting(tmp_path, EVERY)

    def exporter() -> psutil.Process:
        [process] = filter(is_exporting, psutil.Process().children())
        return process

    def is_at_work(process: psutil.Process) -> bool:
        exporting.exporter.look()
        return bool(process.children())

    exporting.checkpoint(1.0)
    exporting.reports_after(1)
    first = exporter()
    exporting.checkpoint(2.0)
    exporting.reports_after(2)
    assert exporter() == first
    exporting.checkpoint(3.0)
    exporting.exporter._next = 0.0
    wait_until(lambda: is_at_work(first), "an export under way")
    [forked] = first.children()
    first.kill()
    with caplog.at_level("WARNING", logger="afo"):
        assert exporting.reports_after(3)[2].step == 30
    assert "could not be exported: its process ended with -9" in caplog.text
    assert exporter() != first
    assert not forked.is_running()
    exporting.exporter.close()


@pytest.mark.usefixtures("no_process_is_left")
def test_what_was_exported_when_the_chief_was_killed_is_reported_by_the_next_one(tmp_path: Path) -> None:
    from afo.train.exports.version_reports import VersionReports

    exporting = Exporting(tmp_path, EVERY)
    exporting.checkpoint(1.0)
    [first] = exporting.reports_after(1)
    second = exporting.checkpoint(2.0)
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    base_path = str(exporting.versions.base_path)
    wait_until(lambda: len(list_versions(base_path)) == 2, "a version of which nobody tells")
    exporting.exporter.close()
    VersionReports(exporting.setup).begin(first.version)
    [report] = exporting.reports[1:]
    assert (report.manifest, report.step, report.parent, report.seconds) == (second, 20, first.version, None)
    files = exporting.versions.base_path.joinpath(str(report.version)).rglob("*")
    assert report.bytes == sum(file.stat().st_size for file in files if file.is_file())


@pytest.mark.usefixtures("no_process_is_left")
def test_an_export_whose_directory_a_cleaner_removed_fails_and_the_next_ones_do_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporting, work = Exporting(tmp_path, EVERY), tmp_path / "work"
    exporting.checkpoint(1.0)
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    shutil.rmtree(work)  # under an export
    with caplog.at_level("WARNING", logger="afo"):
        assert exporting.reports_after(1)[0].step == 10
    assert "the checkpoint of step 10 could not be exported: its process ended with " in caplog.text
    assert f"{work / 'periodic-export'} was removed" in caplog.text
    caplog.clear()
    shutil.rmtree(work)  # between two
    second = exporting.checkpoint(2.0)
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    assert (exporting.exporter.protected, caplog.text) == ((second,), "")
    exporting.exporter.close()


def test_a_container_without_room_for_an_export_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exporting = Exporting(tmp_path, EVERY, memory_mib=1100)
    (tmp_path / "work").write_text("in the way")  # nothing is begun
    with caplog.at_level("WARNING", logger="afo"):
        for value in (1.0, 2.0):
            exporting.checkpoint(value)
            exporting.exporter._next = 0.0
            exporting.exporter.look()
    assert caplog.text.count("of the 1100 MiB of `roles.worker.memory`, and an export up to 1024 MiB beside it") == 1


def test_an_export_that_cannot_begin_is_said_and_the_next_one_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporting, work = Exporting(tmp_path, EVERY), tmp_path / "work"
    exporting.checkpoint(1.0)
    work.write_text("in the way")
    exporting.exporter._next = 0.0
    with caplog.at_level("WARNING", logger="afo"):
        exporting.exporter.look()
    assert "the checkpoint of step 10 could not be exported: the work in " in caplog.text
    assert exporting.exporter.protected == ()
    work.unlink()
    exporting.exporter._next = 0.0
    exporting.exporter.look()
    assert exporting.exporter.protected != ()
    exporting.exporter.close()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"deltas": True, "tables": "native"}, "say how often one is written with `every`"),
        ({"deltas": True, "every": "30s"}, "`deltas` is not for frozen tables"),
        ({"require_window": 3, "require": {"auc": ">=0.7"}}, "`require_window` is for versions with bounds"),
        ({"require_window": 3, "every": "30s"}, "`require_window` is for versions with bounds"),
        ({"every": "30s", "full_every": 65}, "`full_every`|<= 64|65"),
    ],
)
def test_options_that_contradict_each_other_are_refused(keys: dict[str, Any], words: str) -> None:
    from afo.formats.yaml_file import convert
    from afo.formats.yaml_tree import Document

    with pytest.raises(SpecError, match=words):
        convert(Document("job.yaml", keys), Export)

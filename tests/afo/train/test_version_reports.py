"""Reports of versions: also of those that a chief was killed after, and of no others."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from afo import storage
from afo.checkpoint.manifest import parse_name
from afo.errors import ClusterUnreachable
from afo.formats.units import Duration
from afo.job import Export
from afo.job_dir.lineage import Ancestry, Lineage, Totals, Training
from afo.rpc import messages as m
from afo.train.exports import version_reports
from afo.train.exports.version_reports import VersionReports
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported

OWN, OTHER = "application_1_0001", "application_1_0002"


class Job:
    """A job's directories, and what its chiefs report."""

    def __init__(self, directory: Path) -> None:
        self.checkpoints, self.versions = directory / "checkpoints", directory / "ctr"
        self.reports: list[m.VersionReport] = []

    def chief(self, every: float | None = 1.0) -> VersionReports:
        task = SimpleNamespace(
            checkpoint_url=f"{self.checkpoints}/", export_url=str(self.versions), generation=2, job_id=OWN
        )
        setup: Any = SimpleNamespace(
            task=task, id=m.TaskId(role="worker", index=0, attempt=1),
            job=SimpleNamespace(export=Export(every=every and Duration(every))),
            master=SimpleNamespace(report_version=self.reports.append),
        )  # fmt: skip
        return VersionReports(setup)

    def manifest(self, step: int, directory: str = "") -> str:
        return f"{directory or self.checkpoints}/manifest-g000001-s{step:012d}.json"

    def write(self, number: int, about: Exported) -> Path:
        """A SavedModel of 110 bytes and its description."""
        version = self.versions / str(number)
        for name, size in (("saved_model.pb", 10), ("assets/table-0.rows", 100)):
            storage.write_bytes(f"{version}/{name}", b"x" * size)
        storage.write_bytes(storage.join(str(version), *export_info.FILE), msgspec.json.encode(about))
        return version

    def export(self, number: int, job_id: str = OWN, **options: Any) -> int:
        """A version of the step `number`; returns the bytes of its description."""
        training = Training(
            job_id=job_id, name="ctr", afo_version="1", schema_hash="", first_step=0, step=number, files=(),
            totals=Totals(),
        )  # fmt: skip
        lineage = Lineage(own=training, before=Ancestry())
        options = {"manifest": self.manifest(number), "step": number, "lineage": lineage, **options}
        about = Exported(labels=("label",), **options)
        self.write(number, about)
        return len(msgspec.json.encode(about))

    @property
    def reported(self) -> list[int]:
        return [report.version for report in self.reports]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_chief_that_starts_reports_what_was_exported_and_not_reported(job: Job) -> None:
    job.chief().begin(0)  # there is no such directory yet
    job.export(10)
    size = job.export(11, parent=10)
    job.chief().begin(10)
    assert job.reports == [
        m.VersionReport(
            task=m.TaskId(role="worker", index=0, attempt=1), generation=2, version=11, parent=10, step=11,
            manifest=job.manifest(11), bytes=110 + size, seconds=None,
        )
    ]  # fmt: skip
    job.chief().begin(11)
    job.chief(every=None).begin(0)
    assert job.reported == [11]


def test_what_was_not_reported_comes_before_the_next_version_and_once(job: Job) -> None:
    reports = job.chief()
    reports.begin(0)
    job.export(10)
    job.export(12)
    for number in (12, 13):
        reports.report(parse_name(job.manifest(number)), number, None, 1, 2.5, {"auc": 0.8})
    assert job.reported == [10, 12, 13]
    assert [(each.seconds, each.metrics) for each in job.reports] == [(None, {}), *[(2.5, {"auc": 0.8})] * 2]


def others(job: Job) -> Iterator[int]:
    """Numbers of what is no version of this job."""
    yield job.export(20, job_id=OTHER) and 20
    yield job.export(21, manifest=job.manifest(21, "/elsewhere")) and 21
    yield job.export(22, manifest=Path(job.manifest(22)).name) and 22
    for number, text in ((23, b"{"), (24, b"[" * 100_000), (25, b'{"manifest": "m", "step": 1, "labels": []}')):
        storage.write_bytes(storage.join(str(job.versions), str(number), *export_info.FILE), text)
        yield number
    (job.versions / "26").mkdir()
    (job.versions / "27").write_text("a file")
    (job.versions / "28" / "assets.extra" / "afo.json").mkdir(parents=True)
    (job.versions / "29" / "assets.extra").mkdir(parents=True)
    os.mkfifo(job.versions / "29" / "assets.extra" / "afo.json")
    yield from range(26, 30)
    yield job.export(2**63) and 2**63
    (job.versions / "latest").mkdir()


def test_what_others_wrote_there_is_not_reported_and_does_no_harm(job: Job) -> None:
    numbers = list(others(job))
    job.export(30)
    job.chief().begin(0)
    assert len(numbers) == 11
    assert job.reported == [30]


def test_of_any_number_of_versions_the_newest_are_looked_at(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_reports, "_MOST_LOOKED_AT", 3)
    for number in range(1, 1000):
        (job.versions / str(number)).mkdir(parents=True)
    for number in (996, 997, 1000):
        job.export(number)
    looked: list[str] = []
    read = export_info.read
    monkeypatch.setattr(export_info, "read", lambda url: looked.append(url) or read(url))
    reports = job.chief()
    reports.begin(0)
    reports.report(parse_name(job.manifest(5)), 1001, None, 1, 1.0)
    assert [storage.name(url) for url in looked] == ["998", "999", "1000"]
    assert job.reported == [1000, 1001]


def test_where_the_file_system_does_not_answer_it_is_looked_at_later(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(url: str) -> Exported:
        raise ClusterUnreachable("nobody answers")

    job.export(10)
    reports = job.chief()
    with monkeypatch.context() as away, caplog.at_level("WARNING", logger="afo"):
        away.setattr(export_info, "read", read)
        reports.begin(0)
    assert (job.reported, "nobody answers" in caplog.text) == ([], True)
    reports.report(parse_name(job.manifest(11)), 11, None, 1, 1.0)
    assert job.reported == [10, 11]

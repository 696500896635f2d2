"""`afo ls` over directories that others write."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from afo import storage
from afo.errors import AfoError, StorageError
from afo.job.paths import JobPaths
from afo.yarn import submission
from afo_client.cli.main import afo
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from damaged_files import HOSTILE
from job_writer import DONE, RUNNING, JobWriter

pytestmark = pytest.mark.timeout(60)

AM_CONFIG = f"am/{submission.AM_CONFIG}"


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", ["job.json", "verdict.json", AM_CONFIG])
def test_what_lies_in_one_directory_hides_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    JobWriter(str(tmp_path), DONE, "whole").begin().end("SUCCEEDED", "succeeded", auc=0.75)
    other = JobWriter(str(tmp_path), RUNNING, "other").begin()
    storage.write_bytes(f"{other.paths.dir}/{name}", data)
    done = CliRunner().invoke(afo, ["ls", "--runtime", "local", "--json"])
    assert done.exit_code == 0, done.output
    jobs = {job["application_id"]: job for job in json.loads(done.stdout)["jobs"]}
    assert jobs[DONE]["state"] == "SUCCEEDED"
    assert RUNNING in jobs


def changed(paths: JobPaths, what: str) -> None:
    """A job's directory as somebody who means harm leaves it."""
    folder = Path(paths.dir)
    if what.startswith("submitted "):
        file = folder / "job.json"
        file.write_bytes(re.sub(rb'"submitted":[0-9.]+', b'"submitted":' + what[10:].encode(), file.read_bytes()))
    elif what.startswith("large "):
        (folder / "verdict.json").unlink(missing_ok=True)
        file = folder / what[6:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.truncate(file, 1 << 40)
    elif what == "lock is a directory":
        (folder / "am" / "lock").mkdir(parents=True)
    elif what == "lock is a link to itself":
        (folder / "am").mkdir()
        (folder / "am" / "lock").symlink_to("lock")
    if what.startswith(("lock", "large")):
        (folder / "am").mkdir(exist_ok=True)
    if what.startswith("lock") or what == "large logs/am/1/stderr":
        (folder / AM_CONFIG).write_bytes((folder / "job.json").read_bytes())


@pytest.mark.parametrize(
    "what",
    [
        "submitted 1e300",
        "submitted -1e12",
        "lock is a directory",
        "lock is a link to itself",
        *(
            f"large {name}"
            for name in ("job.json", "verdict.json", AM_CONFIG, "logs/am/1/stderr", "events/events_001_00001.jsonl")
        ),
    ],
)
def test_a_hostile_directory_hides_no_other_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    JobWriter(str(tmp_path), DONE, "whole").begin().end("SUCCEEDED", "succeeded", auc=0.75)
    other = JobWriter(str(tmp_path), RUNNING, "other").begin()
    changed(other.paths, what)
    for words in ([], ["--json"]):
        done = CliRunner().invoke(afo, ["ls", "--runtime", "local", *words])
        assert done.exit_code == 0, done.output
        assert DONE in done.stdout
        assert RUNNING in done.stdout
    job = {job["application_id"]: job for job in json.loads(done.stdout)["jobs"]}[RUNNING]
    assert "MemoryError" not in job["problem"]
    for words in (["status"], ["status", "--json"], ["explain"], ["compare", DONE]):
        of_one = CliRunner().invoke(afo, [*words, RUNNING])
        assert of_one.exception is None or isinstance(of_one.exception, AfoError | SystemExit), words
    if what.startswith("lock"):
        assert job["state"] == "UNREADABLE"
        assert "lock" in job["problem"]
        assert f"{RUNNING} cannot be read" in done.stderr


@pytest.mark.parametrize("words", [["status"], ["explain"], ["wait", "--timeout", "1"], ["kill"], ["logs", "-f"]])
def test_a_lock_that_is_none_ends_a_command_with_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    changed(JobWriter(str(tmp_path), RUNNING, "other").begin().paths, "lock is a directory")
    verb, *rest = words
    with pytest.raises(StorageError, match=r"am/lock is held: Is a directory"):
        CliRunner().invoke(afo, [verb, RUNNING, *rest], catch_exceptions=False)


@pytest.mark.parametrize("submitted", [1e300, -1e12])
def test_an_event_may_say_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: float) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    job = JobWriter(str(tmp_path), RUNNING, "other")
    job.at = submitted
    job.begin()
    changed(job.paths, "lock is not there")
    for words in (["ls"], ["ls", "--json"], ["status", RUNNING], ["status", RUNNING, "--json"], ["events", RUNNING]):
        assert CliRunner().invoke(afo, words).exception is None


def test_a_fault_of_ours_is_of_the_job_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    for job_id in (DONE, RUNNING):
        JobWriter(str(tmp_path), job_id, "whole").begin().end("SUCCEEDED", "succeeded")
    glance = JobWatch.glance

    def faulty(self: JobWatch) -> JobView:
        if self.ref.job_id == RUNNING:
            raise ZeroDivisionError("ours")
        return glance(self)

    monkeypatch.setattr(JobWatch, "glance", faulty)
    done = CliRunner().invoke(afo, ["ls", "--runtime", "local", "--json"])
    jobs = {job["application_id"]: job for job in json.loads(done.stdout)["jobs"]}
    assert (jobs[DONE]["state"], jobs[DONE]["problem"]) == ("SUCCEEDED", "")
    assert (jobs[RUNNING]["state"], jobs[RUNNING]["problem"]) == ("UNREADABLE", "ZeroDivisionError: ours")


def test_where_no_cluster_is_said_to_be_none_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("AFO_RUNTIME", "local")
    assert CliRunner().invoke(afo, ["ls"]).stderr == "no jobs\n"
    monkeypatch.setenv("AFO_RUNTIME", "yarn")
    done = CliRunner().invoke(afo, ["ls"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "jobs on yarn are not shown" in done.stderr
    assert isinstance(CliRunner().invoke(afo, ["ls", "--runtime", "yarn"]).exception, AfoError)

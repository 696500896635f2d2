"""The verbs that look at jobs, on the files that a job leaves behind."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from afo.events import event_log
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo.protocol.input_file import InputFile
from afo.rpc.messages import TaskId
from afo.site.user_state import UserState
from afo_client.cli.main import VERBS, run
from afo_client.doctor import checks
from afo_client.runtimes.application import Application

JOB = "application_1_0001"
OTHER = "application_1_0002"
WORKER = TaskId(role="worker", index=0, attempt=0)


class FakeYarn:
    """A ResourceManager that knows two applications."""

    def applications(self) -> list[Application]:
        return [
            Application(job_id=JOB, state="FINISHED", final="SUCCEEDED", name="my job", user="ann", started=5.0),
            Application(job_id=OTHER, state="ACCEPTED", name="new", user="bob", queue="q", started=9.0),
        ]

    def application(self, job_id: str) -> Application:
        return next(each for each in self.applications() if each.job_id == job_id)

    def kill(self, job_id: str) -> None:
        raise AssertionError("nothing is to be killed here")


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobPaths:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "HADOOP_CONF_DIR", "HADOOP_HOME", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setattr("afo_client.runtimes.yarn.yarn_jobs.YarnJobs", FakeYarn)
    paths = JobPaths(str(tmp_path / "jobs"), JOB)
    write_job(paths)
    UserState(tmp_path / "state").remember_last(JOB)
    return paths


def write_job(paths: JobPaths) -> None:
    verdict = ev.JobFinished(
        state="FAILED", cause="user_exception", diagnostics="worker:0 failed", metrics={"auc": 0.5}, samples=10, step=3,
        seconds=2.0, core_hours=0.1, memory_gb_hours=0.1, restarts=0,
    )  # fmt: skip
    story: list[ev.AnyEvent] = [
        ev.JobStarted(
            job_id=JOB, name="my job", user="ann", queue="default", runtime="yarn", afo_version="0", submitted=7.0,
            eval_files=(), epochs=1,
        ),
        ev.SplitsAdded(first=0, splits=(InputFile("a", 1, 1.0),), closed=True),
        ev.ContainerRequested(task=WORKER, memory=1024, vcores=1),
        ev.TaskRegistered(task=WORKER, container="c_1", host="host1", pid=1, log_url="", environment={}),
        ev.TaskEnded(task=WORKER, cause="user_exception", code=1, message="it raised", tail="ValueError: \x1b[2Jx"),
        ev.JobEnding(state="FAILED", cause="user_exception", diagnostics="worker:0 failed", first_task=WORKER),
        verdict,
    ]  # fmt: skip
    Path(paths.events).mkdir(parents=True)
    records = [
        event_log.Record(seq=seq, am_attempt=1, incarnation=1, time=1.0 + seq, event=event)
        for seq, event in enumerate(story)
    ]
    Path(paths.events_segment(1, 1)).write_bytes(b"".join(map(event_log.encode_line, records)) + b'{"torn')
    Path(paths.verdict).write_bytes(msgspec.json.encode(verdict))
    for task in ("worker_0", "ps_0"):
        folder = Path(paths.logs, task, "0")
        folder.mkdir(parents=True)
        (folder / "stderr").write_text(f"one {task}\n\x1b[31mtwo {task}\n")


def out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(arguments) == code
    return capsys.readouterr().out


def test_ls(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(out(capsys, "ls", "--runtime", "yarn", "--json"))
    assert [(job["application_id"], job["state"], job["user"]) for job in listed["jobs"]] == [
        (OTHER, "ACCEPTED", "bob"),
        (JOB, "FAILED", "ann"),
    ]
    assert "my job" not in out(capsys, "ls", "--runtime", "yarn", "--state", "accepted")
    assert out(capsys, "ls", "--runtime", "yarn", "-n", "1").count("application_") == 1


def test_status_of_the_last_job(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "status")
    assert f"{JOB} FAILED" in text
    assert "worker:0  ended" in text
    assert "| ValueError: x" in text
    fields = json.loads(out(capsys, "status", "--json"))
    assert fields["api"] == "afo/v1"
    assert (fields["state"], fields["cause"], fields["metrics"]) == ("FAILED", "user_exception", {"auc": 0.5})
    assert (fields["tasks"][0]["task"], fields["tasks"][0]["host"]) == ("worker:0", "host1")
    assert fields["submitted"] == "1970-01-01T00:00:07.000Z"


def test_damaged_lines_of_the_log_are_left_out_and_counted(capsys: pytest.CaptureFixture[str], paths: JobPaths) -> None:
    event_segment = Path(paths.events_segment(1, 1))
    assert "event log is" not in out(capsys, "status")
    lines = event_segment.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"1024", b"1025")
    event_segment.write_bytes(b"\n".join(lines))
    assert "1 line of the event log is damaged and left out" in out(capsys, "status")
    assert run(["events", JOB]) == 0
    shown = capsys.readouterr()
    assert "ContainerRequested" not in shown.out
    assert "TaskRegistered" in shown.out
    assert "1 line of the event log is damaged and left out" in shown.err


def test_wait_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(out(capsys, "wait", JOB, "--json", code=1))
    assert (fields["application_id"], fields["exit_code"], fields["samples"]) == (JOB, 1, 10)
    assert set(fields["places"]) == {"model", "checkpoints", "summaries", "logs", "events"}


def test_kill_of_an_ended_job_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(out(capsys, "kill", JOB, "--json"))["state"] == "FAILED"


def test_annotate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, paths: JobPaths) -> None:
    document = json.loads(Path(paths.job).read_bytes()) if Path(paths.job).exists() else {"job": {}}
    document["job"]["tags"] = {"team": "feeds", "old": "1"}
    Path(paths.job).write_text(json.dumps(document))
    assert out(capsys, "annotate", JOB) == "old=1\nteam=feeds\n"
    assert not Path(paths.annotations).exists(), "who only looks writes nothing"
    assert out(capsys, "annotate", JOB, "old-", "why=a=b", "--notes", "compare\nwith Monday") == (
        "team=feeds\nwhy=a=b\ncompare\nwith Monday\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("of stdin\r\n"))
    found = json.loads(out(capsys, "annotate", JOB, "--notes", "-", "--json"))
    assert (found["tags"], found["notes"]) == ({"team": "feeds", "why": "a=b"}, "of stdin")
    assert out(capsys, "annotate", JOB, "--notes", "", "team-", "why-") == "no tags\n"
    for wrong in ("gone-", "team", "=x", "a=\x07"):
        assert run(["annotate", JOB, wrong]) == 2
        assert repr(wrong) in capsys.readouterr().err or wrong in ("=x", "a=\x07")
    Path(paths.annotations).write_text("{")
    assert run(["annotate", JOB, "a=b"]) == 3
    assert "annotations.json: no annotations" in capsys.readouterr().err.lower()


def test_events(capsys: pytest.CaptureFixture[str]) -> None:
    lines = out(capsys, "events", JOB, "-f").splitlines()
    assert len(lines) == 7
    assert lines[2].startswith("1970-01-01T00:00:03.000Z ContainerRequested task=worker:0/0 memory=1024")
    objects = [json.loads(line) for line in out(capsys, "events", "--json").splitlines()]
    assert objects[4]["event"]["cause"] == "user_exception"


def test_logs(capsys: pytest.CaptureFixture[str], tmp_path: Path, paths: JobPaths) -> None:
    assert (
        out(capsys, "logs", "-f")
        == "[ps:0] one ps_0\n[ps:0] two ps_0\n[worker:0] one worker_0\n[worker:0] two worker_0\n"
    )
    assert out(capsys, "logs", "worker:0", "--tail", "1") == "two worker_0\n"
    assert out(capsys, "logs", JOB, "ps", "--raw", "--tail", "1") == "\x1b[31mtwo ps_0\n"
    copied = out(capsys, "logs", "--out", str(tmp_path / "copy")).splitlines()
    assert [Path(path).read_bytes() for path in copied] == [
        Path(paths.logs, task, "0", "stderr").read_bytes() for task in ("ps_0", "worker_0")
    ]


def test_versions_and_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(out(capsys, "version", "--json"))["versions"]["afo"]
    shown = json.loads(out(capsys, "config", "--json"))["config"]
    assert shown["jobs_root.local"]["origin"] == "environment AFO_JOBS_ROOT"
    assert "complete" in out(capsys, "completion", "bash")


def test_doctor_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    told = out(capsys, "doctor")
    assert "any graph" in told
    assert "native operations: " in told
    assert "parameter server: " in told
    report = json.loads(out(capsys, "doctor", "--cluster", "--json", code=6))
    last = report["findings"][-1]
    assert (last["name"], last["level"]) == ("Hadoop configuration", "fail")
    assert "HADOOP_CONF_DIR" in last["advice"]


def test_doctor_names_secrets_that_are_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "secrets: " in out(capsys, "doctor")
    (tmp_path / "state").chmod(0o750)
    told = out(capsys, "doctor")
    assert f"open to others: {tmp_path / 'state'} (mode 0750)" in told
    assert f"chmod -R go= {tmp_path / 'state'}" in told
    # The directory of jobs lies in it by default, and may be the first that is made there.
    monkeypatch.delenv("AFO_JOBS_ROOT")
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "fresh"))
    before = os.umask(0)
    try:
        out(capsys, "doctor")
    finally:
        os.umask(before)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o700


def test_doctor_measures_the_disk_of_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: usage._replace(free=5 << 20))
    assert f"warn disk: 5.0 MiB free at {tmp_path / 'jobs'}" in out(capsys, "doctor")


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(verb in out(capsys, "--help") for verb in VERBS)
    for verb in VERBS:
        assert "Usage: afo" in out(capsys, verb, "--help")


def test_the_nearest_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["statsu"]) == 2
    assert "Did you mean `afo status`?" in capsys.readouterr().err


def test_the_page_of_the_command_names_every_verb() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"`{verb}" not in page] == []


def test_the_command_imports_no_tensorflow() -> None:
    verbs = [module for module, _ in VERBS.values()]
    lines = ["import importlib, sys", *(f"importlib.import_module({module!r})" for module in verbs)]
    lines.append("sys.exit('tensorflow' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], check=False).returncode == 0

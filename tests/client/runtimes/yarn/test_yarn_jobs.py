"""The client against a ResourceManager that speaks HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from afo.errors import NotFound
from afo.yarn.submission import mark_tag
from afo_client.cli.main import run
from afo_client.runtimes.yarn.yarn_jobs import YarnJobs
from fake_resource_manager import FakeResourceManager
from job_writer import JobWriter, task_id

JOB = "application_1_0001"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeResourceManager]:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "fs" / "tmp").mkdir(parents=True)
    manager = FakeResourceManager()
    manager.write_configuration(tmp_path / "conf", fs__defaultFS=f"file://{tmp_path}/fs")
    yield manager
    manager.stop()


def test_states(manager: FakeResourceManager) -> None:
    manager.add_application(JOB, "ACCEPTED")
    assert (YarnJobs().application(JOB).state, YarnJobs().application(JOB).final) == ("ACCEPTED", "")
    manager.add_application(JOB, "FINISHED", "FAILED", diagnostics=" why \n", startedTime=5000)
    ended = YarnJobs().application(JOB)
    assert (ended.final, ended.diagnostics, ended.started) == ("FAILED", "why", 5.0)
    assert [each.job_id for each in YarnJobs().applications()] == [JOB]
    with pytest.raises(NotFound):
        YarnJobs().application("application_1_0002")


def test_a_job_is_found_by_its_mark(manager: FakeResourceManager) -> None:
    manager.add_application("application_1_0002", "RUNNING", applicationTags=f"afo,{mark_tag('ab-2')},team:feeds")
    manager.add_application(JOB, "FINISHED", "FAILED", applicationTags=f"afo,{mark_tag('ab-1')}")
    assert YarnJobs().find_marked("ab-1") == JOB
    assert YarnJobs().find_marked("ab-2") == "application_1_0002"
    assert YarnJobs().find_marked("ab-3") is None


def test_a_job_whose_master_never_started(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    (tmp_path / "jobs" / JOB).mkdir(parents=True)
    manager.add_application(JOB, "FAILED", "FAILED", diagnostics="Exit code is 127: python: not found")
    assert run(["wait", JOB, "--json"]) == 1
    captured = capsys.readouterr()
    assert "Exit code is 127: python: not found" in captured.err
    assert json.loads(captured.out)["state"] == "FAILED"


def test_a_job_that_was_killed_while_it_waited_is_known_when_yarn_has_forgotten_it(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    JobWriter(str(tmp_path / "jobs"), JOB, "clicks", runtime="yarn")
    manager.add_application(JOB, "ACCEPTED")
    assert run(["kill", JOB, "--reason", "too long", "--json"]) == 0
    manager.applications.clear()
    capsys.readouterr()
    assert run(["status", JOB, "--json"]) == 0
    ended = json.loads(capsys.readouterr().out)
    assert (ended["state"], ended["cause"]) == ("KILLED", "killed_by_user")
    assert ended["diagnostics"].endswith("before it had an Application Master: too long")


def test_while_the_resource_manager_is_down_a_job_is_shown_as_its_event_log_has_it(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    job = JobWriter(str(tmp_path / "jobs"), JOB, "clicks", runtime="yarn")
    manager.stop()
    assert run(["status", JOB]) == 6, "nothing is known of it yet"
    job.begin().task(task_id("worker"))
    capsys.readouterr()
    for verb in ("status", "explain"):
        assert run([verb, JOB]) == 0
        text = capsys.readouterr().out
        assert "does not answer" in text
        assert "; this is what its event log says" in text
    assert run(["status", JOB, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["tasks"][0]["host"]) == ("RUNNING", "node-1")


def test_kill_without_a_master(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    (tmp_path / "jobs" / JOB).mkdir(parents=True)
    manager.add_application(JOB, "ACCEPTED")
    for _ in range(2):
        assert run(["kill", JOB, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "KILLED"


def test_a_job_that_waits_for_its_master(manager: FakeResourceManager, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is in the jobs' directory yet, but YARN knows it."""
    manager.add_application(JOB, "ACCEPTED", diagnostics="waiting for the AM")
    for verb in ("status", "events", "logs"):
        assert run([verb, JOB]) == 0
    assert "ACCEPTED · waiting for the AM" in capsys.readouterr().out
    assert run(["wait", JOB, "--timeout", "1s"]) == 7
    assert run(["kill", JOB]) == 0
    assert "is KILLED" in capsys.readouterr().err
    assert run(["wait", JOB]) == 8
    assert run(["status", "application_1_0002"]) == 5
    assert "there is no job application_1_0002" in capsys.readouterr().err


def test_a_job_of_another_root_is_not_told_to_have_failed(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "elsewhere"))
    manager.add_application(JOB, "FINISHED", "SUCCEEDED")
    for verb in ("status", "events", "wait"):
        assert run([verb, JOB]) == 5
        assert f"{JOB} has SUCCEEDED, and its directory is not in {tmp_path}/elsewhere" in capsys.readouterr().err


def test_where_the_log_of_a_master_is_that_copied_nothing_yet(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    (tmp_path / "jobs" / JOB).mkdir(parents=True)
    manager.add_application(JOB, "RUNNING", amContainerLogs="http://nm/logs")
    assert run(["logs", JOB, "am"]) == 5
    assert "http://nm/logs" in capsys.readouterr().err
    copy = tmp_path / "jobs" / JOB / "logs" / "am" / "1" / "stderr"
    copy.parent.mkdir(parents=True)
    copy.write_text("INFO said by the master\n")
    assert run(["logs", JOB, "am"]) == 0
    assert capsys.readouterr().out == "INFO said by the master\n"
    second = copy.parents[1] / "2" / "stderr"
    second.parent.mkdir()
    second.write_text("INFO said by the next\n")
    assert run(["logs", JOB, "am"]) == 0
    assert capsys.readouterr().out == "[am/1] INFO said by the master\n[am/2] INFO said by the next\n"


def test_doctor_finds_the_cluster_well(manager: FakeResourceManager, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--cluster", "--json"]) == 0
    levels = {finding["name"]: finding["level"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert {levels[name] for name in ("HDFS", "clock", "ResourceManager", "queues")} == {"ok"}


def test_doctor_finds_what_is_wrong(manager: FakeResourceManager, capsys: pytest.CaptureFixture[str]) -> None:
    manager.nodes = []
    assert run(["doctor", "--cluster"]) == 6
    text = capsys.readouterr().out
    assert "fail ResourceManager: it answers, but no NodeManager runs" in text
    assert "start a NodeManager" in text


def test_doctor_on_a_kerberos_cluster(
    manager: FakeResourceManager, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.write_configuration(
        tmp_path / "conf", hadoop__security__authentication="kerberos", fs__defaultFS="hdfs://h"
    )
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    assert run(["doctor", "--cluster"]) == 6, "what fails first is that no job can be written: there is no such HDFS"
    text = capsys.readouterr().out
    assert "fail Kerberos: there is no ticket of Kerberos; there is no valid ticket: run `kinit`" in text
    assert "HDFS: " not in text, "which has nothing else to say"

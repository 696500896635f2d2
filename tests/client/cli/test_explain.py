"""`afo explain` on what a job leaves behind."""

import json
from pathlib import Path

import pytest

from afo.events import types as ev
from afo.failures.causes import APPLICATION_ATTEMPT_LOST, CAUSES
from afo.site.user_state import UserState
from afo_client.cli.main import run
from job_writer import LAST_WORDS, JobWriter, task_id

JOB = "local_1763000000000_0001"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobWriter:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "HADOOP_CONF_DIR", "HADOOP_HOME", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    UserState(tmp_path / "state").remember_last(JOB)
    return JobWriter(str(tmp_path / "jobs"), JOB, "clicks").begin()


def failed(job: JobWriter) -> None:
    """worker:1 loses its machine twice, then worker:0 raises, and a later end is not the first one."""
    for attempt in range(2):
        lost = task_id("worker", 1, attempt)
        job.task(lost).log(ev.TaskEnded(task=lost, cause="node_lost", code=None, message="the machine went away"))
    first, later = task_id("worker", 0), task_id("ps", 0)
    job.task(first).task(later).log(
        ev.TaskEnded(task=first, cause="out_of_memory", code=1, message="killed at 2 GiB", tail=LAST_WORDS + "\x1b[2J"),
        ev.TaskEnded(task=later, cause="parameter_server_lost", code=1, message="later"),
    )
    job.end("FAILED", "out_of_memory", "worker:0 failed 6 times", first=first)


def out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(arguments) == code
    return capsys.readouterr().out


def test_the_first_failing_task_with_its_evidence_and_advice(
    job: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    failed(job)
    text = out(capsys, "explain")
    assert f"{JOB} FAILED: out_of_memory: The task needed more memory than it was given." in text
    assert "failed task: worker:0 (attempt 0) on node-1: out_of_memory: killed at 2 GiB" in text
    assert "  | ValueError: no feature <b>age</b>\n" in text  # the escape sequence is gone
    assert "fault of: user" in text
    assert "uses the budget `restart.worker`: 5 in 1h" in text
    assert "what to do: Raise `roles.<role>.memory`" in text
    assert "4 ends of tasks before their time" in text
    assert ["worker:1", "node_lost", "2"] in [line.split() for line in text.splitlines()]


def test_a_process_that_failed_in_its_container_is_the_evidence_too(
    job: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    task = task_id("worker", 0)
    end = ev.ProcessEnded(task=task, cause="user_exception", code=1, message="ValueError: no", tail=LAST_WORDS)
    job.task(task).log(end, end)
    job.end("FAILED", "user_exception", "worker:0: ValueError: no", first=task, leaves=task)
    text = out(capsys, "explain")
    assert "failed task: worker:0 (attempt 0) on node-1: user_exception: ValueError: no" in text
    assert "  | ValueError: no feature <b>age</b>\n" in text
    assert "2 ends of tasks before their time" in text


def test_as_json(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    failed(job)
    fields = json.loads(out(capsys, "explain", JOB, "--json"))
    assert (fields["state"], fields["cause"], fields["evidence"]["task"]) == ("FAILED", "out_of_memory", "worker:0")
    assert fields["explanation"]["blame"] == "user"
    assert [end["cause"] for end in fields["ends"]].count("node_lost") == 2
    assert fields["evidence"]["time"].endswith("Z")


def test_restarts_say_how_long_each_took_and_what_they_cost_in_all(
    job: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    server, worker, again = task_id("ps"), task_id("worker"), task_id("ps", 0, 1)
    job.task(server).task(worker).log(
        ev.VariablesReady(task=worker, generation=1, restored="", step=0, samples=0),
        ev.TaskAtWork(task=worker, generation=1),
        ev.TaskEnded(task=server, cause="node_lost", code=None, message="the machine went away"),
        ev.GenerationEnded(generation=1, reason="it is gone", manifest="m-4", step=70, samples=7000),
    ).task(again, host="node-2")
    job.log(
        ev.VariablesReady(task=worker, generation=2, restored="m-4", step=40, samples=4000),
        ev.TaskAtWork(task=worker, generation=2),
    )
    job.end("SUCCEEDED", "succeeded")
    lines = out(capsys, "explain").splitlines()
    assert ("downtime: no training for 5.0 s (27.8% of the job's time); task downtime 6.0 s in all; 1 restart") in lines
    (row,) = (line for line in lines if "ps:0 (attempt 0)" in line)
    phases = "request 2.0 s, container 1.0 s, start 1.0 s, first step 2.0 s"
    for part in ("node_lost", "node-1  node-2", phases, "30 steps, 3,000 samples"):
        assert part in row
    fields = json.loads(out(capsys, "explain", "--json"))
    assert fields["downtime"] == {
        "seconds": 5.0, "share": 5 / 18, "tasks_away_seconds": 6.0, "restarts": 1, "task_restarts": 1,
        "masters_lost": 0,
    }  # fmt: skip
    assert (fields["restarts"][0]["what"], fields["restarts"][0]["redone"]["steps"]) == ("ps:0", 30)
    assert fields["restarts"][0]["trained"].endswith("Z")


def test_a_job_that_went_well(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    lost = task_id("worker", 1)
    job.task(lost).log(ev.TaskEnded(task=lost, cause="preempted", code=None, message="for another queue"))
    job.end("SUCCEEDED", "succeeded")
    text = out(capsys, "explain")
    assert "It did all its work." in text
    assert "1 end of tasks before their time" in text
    assert json.loads(out(capsys, "explain", "--json"))["evidence"] is None


def test_what_a_partial_recovery_lost_is_told(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    job.log(
        ev.GenerationEnded(generation=1, reason="ps:1 is gone", manifest="m-400", kept=(0, 2)),
        ev.VariablesReady(
            task=task_id("worker"), generation=2, restored="m-400", step=512, kept=(0, 2), lost_samples=12345
        ),
    )
    job.end("SUCCEEDED", "succeeded")
    note = (
        "generation 2: only what was lost was restored, out of m-400; ps:0, ps:2 kept what they held; "
        "the updates of 12,345 samples are missing in the restored part"
    )
    assert note in out(capsys, "explain").splitlines()
    assert json.loads(out(capsys, "explain", "--json"))["notes"] == [note]
    assert note in out(capsys, "status")


def test_a_checkpoint_that_was_passed_over_is_told(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    chief = task_id("worker")
    job.log(ev.VariablesReady(task=chief, generation=2, restored="m-4", step=4, passed_over=("m-5 is damaged: why",)))
    job.end("SUCCEEDED", "succeeded")
    assert "restore: passed over: m-5 is damaged: why" in out(capsys, "explain").splitlines()


@pytest.mark.parametrize(
    ("cause", "budget"),
    [("memory_limit", "budget `restart.<role>`: 5 in 1h unless"), ("node_lost", "uses no budget, 100 times"),
     ("data_error", "not retried: it would fail again"), ("succeeded", "not retried")],
)  # fmt: skip
def test_a_cause(job: JobWriter, capsys: pytest.CaptureFixture[str], cause: str, budget: str) -> None:
    text = out(capsys, "explain", cause)
    assert CAUSES[cause].advice in text
    assert budget in text
    assert json.loads(out(capsys, "explain", cause, "--json"))["cause"] == cause


def test_all_causes(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(name in out(capsys, "explain", "--causes") for name in CAUSES)
    assert len(json.loads(out(capsys, "explain", "--causes", "--json"))["causes"]) == len(CAUSES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("memory_limti",), "did you mean `memory_limit`?"), (("xyz",), "`afo explain --causes` lists them"),
     (("--causes", "memory_limit"), "leave 'memory_limit' out")],
)  # fmt: skip
def test_what_is_no_cause(
    job: JobWriter, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert run(["explain", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_loss_of_the_application_master_is_told_once(job: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [task_id("worker", index) for index in range(3)]
    for task in tasks:
        job.task(task)
    job.log(
        *(ev.TaskEnded(task=task, cause=APPLICATION_ATTEMPT_LOST, code=None, message="YARN") for task in tasks),
        ev.AmStarted(am_attempt=2, incarnation=1, address="a:1", host="node-7", pid=1),
        ev.AmStarted(
            am_attempt=2,
            incarnation=2,
            address="a:1",
            host="node-7",
            pid=2,
            previous_end="silent for 60 s, in state T, and killed",
        ),
    )
    job.end("SUCCEEDED", "succeeded")
    text = out(capsys, "explain")
    assert "the Application Master was lost 2 times:\n" in text
    assert "in all; 3 restarts, and the Application Master was lost 2 times\n" in text
    assert "attempt 2 on node-7 goes on, before on h; 3 tasks ended with the one before\n" in text
    assert "attempt 2 on node-7 goes on; the one before: silent for 60 s, in state T, and killed\n" in text
    words = "attempt 2 on node-7 goes on; the one before: silent for 60 s, in state T, and killed"
    told = [line for line in out(capsys, "status").splitlines() if "the Application Master" in line]
    assert [(line[:52], line.endswith(words)) for line in told] == [
        ("the Application Master was lost 2 times, last at 202", True)
    ]
    lost = json.loads(out(capsys, "status", "--json"))["master_lost"]
    assert (lost["number"], lost["attempt"], lost["host"], lost["tasks"]) == (2, 2, "node-7", 0)
    masters = json.loads(out(capsys, "explain", "--json"))["masters"]
    assert [(each["attempt"], each["was_on"], each["tasks"]) for each in masters] == [
        (2, "h", 3),
        (2, "node-7", 0),
    ]

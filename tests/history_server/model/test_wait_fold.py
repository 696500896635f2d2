"""Jobs that wait: for their Application Master, for containers, in a pause of their gang. None of them looks failed."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from flask.testing import FlaskClient

from afo.events import types as ev
from afo.rpc.messages import TaskId
from afo.yarn.resource_manager import Application
from afo_history_server.maintenance.lost_jobs import SILENT_S, LostJobs
from afo_history_server.model.wait_fold import WaitFold
from afo_history_server.web.app import JOBS
from job_writer import FAILED, RUNNING, JobWriter, task_id
from pages import text, words

WHY = "waiting for 1 of 1 ps and 1 of 2 workers (2 GiB, 1 vcore each); queue root.ads 97 % used"
PS, WORKER = task_id("ps"), task_id("worker")


def asked(task: TaskId, reason: str = "") -> ev.ContainerRequested:
    return ev.ContainerRequested(task=task, memory=2048, vcores=1, reason=reason)


def ended(task: TaskId, cause: str) -> ev.TaskEnded:
    return ev.TaskEnded(task=task, cause=cause, code=None, message=f"words of {cause}")


def shown(client: FlaskClient, clock: list[float], job: JobWriter) -> tuple[str, str, str]:
    """State and sentence of a job now; page, list and API must have the same."""
    clock[0] += 5
    found = client.get(f"/api/v1/jobs/{job.paths.job_id}").json["job"]
    [line] = client.get("/api/v1/jobs").json["jobs"]
    assert (line["state"], line["waiting"]) == (found["state"], found["waiting"])
    page, jobs = text(client, f"/jobs/{job.paths.job_id}"), text(client, "/")
    assert found["state"] in words(jobs.partition("<tbody>")[2])
    for each in (page, jobs):
        assert found["waiting"] in words(each)
    assert ('id="waiting"' in page) == bool(found["waiting"])
    return found["state"], found["waiting"], page


def test_a_job_says_what_it_waits_for_until_it_has_it(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter]
) -> None:
    job = writer(RUNNING, "ctr", begun=clock[0]).begin().log(asked(PS), asked(WORKER))
    assert shown(client, clock, job)[:2] == ("STARTING", "waiting for 2 containers")
    state, why, page = shown(client, clock, job.log(ev.ContainersAwaited(message=WHY)))
    assert (state, why) == ("STARTING", WHY)
    assert "Starting for" in words(page)
    assert "Running for" not in words(page)
    for task in (PS, WORKER):
        job.log(ev.ContainerRunning(task=task, handle="r", container="c", host="node-1"))
    assert shown(client, clock, job)[:2] == ("STARTING", "")
    job.log(ev.GenerationStarted(generation=1, ps=("node-1:1",)))
    state, why, page = shown(client, clock, job)
    assert (state, why, "Running for" in words(page)) == ("RUNNING", "", True)


def test_what_was_only_asked_for_again_is_neither_red_nor_a_restart(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter]
) -> None:
    again = task_id("worker", 0, 1)
    job = (
        writer(RUNNING, "ctr", begun=clock[0]).begin().log(asked(PS), asked(WORKER), ev.ContainersAwaited(message=WHY))
    )
    job.log(ended(WORKER, "request_unanswered"), asked(again, "after request_unanswered"))
    state, why, page = shown(client, clock, job)
    assert (state, why) == ("STARTING", WHY), "the words are still true of the repeated request"
    assert "worker:0 stderr stdout 0 request_unanswered" in words(page)
    job.log(ev.GangReleased(missing="ps:0", held=1, waited_s=300.0, pause_s=30.0), ended(again, "gang_released"))
    job.log(ended(PS, "gang_released"))
    _, why, page = shown(client, clock, job)
    assert why == "gave its containers back so that other jobs can go on; asks again after 30s"
    job.log(asked(task_id("ps", 0, 1), "after gang_released"), asked(task_id("worker", 0, 2), "after gang_released"))
    assert shown(client, clock, job)[1] == WHY
    live = page[page.index('id="live"') :].partition("timeline-key")
    assert 'class="bad"' not in page
    assert 'class="failed"' not in live[0], "no mark in the timeline"
    assert "No restarts" in page


def test_a_task_that_ran_and_was_lost_is_still_red_and_a_restart(
    client: FlaskClient, writer: Callable[..., JobWriter]
) -> None:
    job = writer(RUNNING, "ctr").begin().task(WORKER).log(ended(WORKER, "node_lost"))
    job.task(task_id("worker", 0, 1))
    page = text(client, f"/jobs/{RUNNING}")
    assert '<span class="bad">node_lost</span>' in page
    assert "worker:0, attempt 1 node_lost" in words(page)


def test_a_job_that_gave_up_waiting_says_so_once(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter]
) -> None:
    job = writer(FAILED, "ctr", begun=clock[0]).begin().log(asked(PS), ev.ContainersAwaited(message=WHY))
    job.end("FAILED", "allocation_timeout", f"no container for ps:0 within 30m; {WHY}", first=PS)
    assert shown(client, clock, job)[:2] == ("FAILED", "")


@pytest.mark.parametrize(("runtime", "whom"), [("yarn", "YARN"), ("local", "this machine")])
def test_a_job_without_its_application_master_has_a_page_that_says_so(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter], runtime: str, whom: str
) -> None:
    job = writer(FAILED, "ctr", runtime=runtime)
    state, why, page = shown(client, clock, job)
    assert (state, why) == ("SUBMITTED", f"waiting for {whom} to start its Application Master")
    assert 'class="bad"' not in page


def test_what_yarn_says_of_it_is_shown_until_it_begins(
    client: FlaskClient, clock: list[float], writer: Callable[..., JobWriter]
) -> None:
    job = writer(FAILED, "ctr", begun=clock[0], runtime="yarn")
    answer = Application(
        id=FAILED, user="alice", name="ctr", queue="default", state="ACCEPTED", final_status="UNDEFINED",
        diagnostics=" waiting for resources to be assigned for AM.\nmore",
    )  # fmt: skip
    cluster = SimpleNamespace(application=lambda _: answer)
    vanished = LostJobs(client.application.extensions[JOBS], lambda: cluster, lambda: clock[0])
    clock[0] += SILENT_S + 10
    assert vanished.close_all() == []
    state, why, _ = shown(client, clock, job)
    assert (state, why.partition("; ")[2]) == ("SUBMITTED", "ACCEPTED: waiting for resources to be assigned for AM.")
    assert shown(client, clock, job.begin())[:2] == ("STARTING", "")


def test_words_about_a_wait_that_is_over_say_nothing_of_the_next() -> None:
    fold = WaitFold("yarn")
    lost = task_id("worker", 0, 1)
    events = [asked(WORKER), ev.ContainersAwaited(message=WHY),
              ev.ContainerRunning(task=WORKER, handle="r", container="c", host="n"),
              ended(WORKER, "node_lost"), asked(lost)]  # fmt: skip
    started = ev.JobStarted(
        job_id=RUNNING, name="x", user="u", queue="q", runtime="yarn", afo_version="0", submitted=1.0, train_files=(),
        eval_files=(), epochs=1,
    )  # fmt: skip
    said = []
    for event in (started, *events):
        fold.take(event)
        said.append(fold.sentence())
    assert said == ["", "waiting for 1 container", WHY, "", "", "waiting for 1 container"]
    fold.take(ended(lost, "scaled_away"))
    assert fold.sentence() == ""

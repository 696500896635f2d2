"""The list of jobs, and the overview of each."""

import html
import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.events import types as ev
from afo.failures.causes import CAUSES, HARMLESS
from job_writer import DONE, FAILED, LAST_WORDS, RUNNING, T0, JobWriter, task_id
from pages import text, words


def test_no_jobs_and_no_directory_say_what_to_do(client: FlaskClient, root: str) -> None:
    assert "No jobs here yet" in text(client, "/")
    storage.delete(root)
    assert "No jobs here yet" in text(client, "/")


def test_the_list_is_newest_first(
    client: FlaskClient, done: JobWriter, failed: JobWriter, running: JobWriter, root: str
) -> None:
    storage.make_dirs(f"{root}/not-a-job")
    page = text(client, "/")
    assert re.findall(r'href="/jobs/([^"]*)"', page) == [RUNNING, FAILED, DONE]
    rows = [words(row) for row in page.split("<tr>")[2:]]
    assert re.search(
        rf"still at it {RUNNING} RUNNING 2025-11-13 02:28:21 1 min 39 s last seen 1 min 34 s ago – – alice default",
        rows[0],
    )
    assert re.search(r"FAILED user_exception .* bob default", rows[1])
    assert rows[2].startswith(f"feeds-ctr {DONE} SUCCEEDED 2025-11-13 02:13:15 12 min 34 s 0.7512 1.25 alice default")


def test_pages_of_the_list_are_bounded(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    for number in range(5):
        writer(f"local_1763000000000_000{number}", f"job-{number}", begun=T0 + number).begin()
    assert re.findall(r"job-\d", text(client, "/?size=2&page=2")) == ["job-2", "job-1"]
    assert "This page is empty" in text(client, "/?size=2&page=9")
    for wrong in ("size=0", "size=501", "size=-1", "page=0", "page=1e3", "page=٣", "size=" + "9" * 5000):
        assert "allowed is a whole number" in text(client, f"/?{wrong}", 400)


def test_a_new_job_and_the_end_of_one_appear(
    client: FlaskClient, clock: list[float], running: JobWriter, writer: Callable[..., JobWriter]
) -> None:
    assert "RUNNING" in text(client, "/")
    running.end("SUCCEEDED", "succeeded", auc=0.6)
    writer(DONE, "another")
    clock[0] += 3
    page = words(text(client, "/").partition('id="live"')[2])
    assert "0.6000" in page
    assert "RUNNING" not in page
    assert "another" in page
    assert "SUBMITTED" in page


def test_a_failed_job_says_why_first(client: FlaskClient, failed: JobWriter) -> None:
    page = text(client, f"/jobs/{FAILED}")
    diagnosis = words(page[page.index('id="diagnosis"') : page.index("</section>")])
    for expected in (
        "The program raised an exception. user_exception",
        "worker:0 raised an exception",
        "What to do. The last lines of its stderr name the place",
        "Failing task. worker:0 , attempt 0, on node-1: user_exception , exit code 1",
        "ValueError: no feature &lt;b&gt;age&lt;/b&gt;",
    ):
        assert expected in diagnosis
    assert page.index('id="diagnosis"') < page.index('class="facts"')


def test_a_finished_job_shows_attempts_checkpoints_restarts_and_metrics(client: FlaskClient, done: JobWriter) -> None:
    page = words(text(client, f"/jobs/{DONE}"))
    for expected in (
        "worker:1 stderr stdout 0 node_lost the node went away node-1",
        "worker:1 stderr stdout 1 running node-2",
        "ps:0 stderr stdout 0 succeeded node-1",
        "512 MiB of 2.0 GiB",
        "m-400",
        "all servers and workers, generation 2 ps:0 was lost; back to m-400",
        "the lost servers and all workers, generation 3 "
        "ps:1 was lost; 2 servers keep what they hold, the rest goes back to m-400",
        "training, generation 3 the updates of 12,345 samples are missing in what was restored",
        "worker:1, attempt 1 node_lost",
        "AUC 0.7512",
        "Core-hours 1.25",
        "Application Master: attempt 1 stderr stdout",
    ):
        assert expected in page, expected
    assert "diagnosis" not in page


def test_a_running_job_shows_how_it_does(client: FlaskClient, running: JobWriter) -> None:
    page = words(text(client, f"/jobs/{RUNNING}"))
    assert "Waiting for input 63 %" in page
    assert "Loss 0.6900" in page
    running.log(ev.Sample(step=11, samples=20, samples_per_s=30.0, input_wait=0.1, loss=0.5))
    assert "Loss 0.5000" in words(text(client, f"/jobs/{RUNNING}"))


def test_a_kill_says_who_asked(client: FlaskClient, running: JobWriter) -> None:
    running.log(ev.KillRequested(user="carol", reason="too slow"))
    assert "carol requested its end: too slow" in text(client, f"/jobs/{RUNNING}")


def test_a_verdict_in_the_log_alone_counts(client: FlaskClient, running: JobWriter) -> None:
    running.end("FAILED", "stalled", verdict=False)
    assert "No task made progress" in text(client, f"/jobs/{RUNNING}")


def test_a_job_that_never_began(client: FlaskClient, writer: Callable[..., JobWriter]) -> None:
    writer(DONE)
    page = text(client, f"/jobs/{DONE}")
    for expected in ("SUBMITTED", "No container has been requested yet"):
        assert expected in page
    assert "the Application Master has not started" in text(client, f"/jobs/{DONE}/events")


def test_at_most_500_events_are_listed(client: FlaskClient, running: JobWriter) -> None:
    running.log(*[ev.SplitLeased(task=task_id("worker"), split=row, epoch=0, resume=False) for row in range(600)])
    page = text(client, f"/jobs/{RUNNING}/events")
    assert "the newest 500 of 607" in page
    assert page.count("<td>SplitLeased</td>") == 50
    assert page.index("split=599") < page.index("split=598")
    last = text(client, f"/jobs/{RUNNING}/events?page=10")
    assert "split=100 " in last
    assert "split=99 " not in last


def test_many_attempts_keep_failed_ones_on_the_page(client: FlaskClient, running: JobWriter) -> None:
    running.log(*[ev.ContainerRequested(task=task_id("worker", i), memory=1, vcores=1) for i in range(1, 520)])
    running.log(ev.TaskEnded(task=task_id("worker", 519), cause="failed", code=3, message="the last one"))
    page = text(client, f"/jobs/{RUNNING}")
    assert "20 more attempts" in page
    assert 'id="worker-519-0"' in page
    assert page.count("<tr id=") == 500


def test_other_addresses_are_not_found(client: FlaskClient) -> None:
    assert f"there is no job {DONE}" in text(client, f"/jobs/{DONE}", 404)
    text(client, "/nothing", 404)


@pytest.mark.parametrize("cause", [name for name in CAUSES if name not in HARMLESS])
def test_a_failed_job_names_task_host_evidence_and_advice(
    client: FlaskClient, writer: Callable[..., JobWriter], cause: str
) -> None:
    task, entry = task_id("worker", 1, 2), CAUSES[cause]
    job = writer(FAILED, "clicks").begin().task(task, "node-7")
    job.log(ev.TaskEnded(task=task, cause=cause, code=1, message=f"words of {cause}", tail=LAST_WORDS))
    job.end("FAILED", cause, f"worker:1 on node-7: words of {cause}", first=task)
    page = text(client, f"/jobs/{FAILED}")
    diagnosis = words(page[page.index('id="diagnosis"') : page.index("</section>")])
    for part in ("Failing task. worker:1 , attempt 2, on node-7", f"words of {cause}", "no feature"):
        assert part in diagnosis
    for prose in (entry.summary, entry.advice):
        assert "".join(prose.replace("`", "").split()) in "".join(html.unescape(diagnosis).split())

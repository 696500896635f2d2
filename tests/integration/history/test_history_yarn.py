"""The history server's pages in a real browser, over jobs that really run on YARN and lie in HDFS."""

import os
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, Page, expect

from adult import JOB_FILE, REPOSITORY, AdultData
from afo import storage
from afo.events import types as ev
from afo_client.hadoop import Cluster
from live_job import LiveJob, afo
from real_browser import NARROW, WIDE, Watched, chromium

pytestmark = [pytest.mark.hadoop, pytest.mark.tensorflow, pytest.mark.timeout(900)]

#: A small part of the cluster, so that all jobs of this file run side by side.
SMALL = ("am.memory=640", "roles.ps.memory=768", "roles.worker.memory=1664", "roles.evaluator.memory=1280",
         "roles.ps.instances=1", "roles.worker.instances=1")  # fmt: skip
FAILS = """import sys
print("reading the features", file=sys.stderr)
raise KeyError("no feature 'age' in the schema")
"""
#: Pictures of what was looked at.
PICTURES = REPOSITORY / "build" / "pages"


TALKS = """import itertools, time
for step in itertools.count():
    print("step", step, flush=True)
    time.sleep(0.5)
"""


@dataclass(frozen=True)
class Jobs:
    """One that failed, one that went well, one that trains, one that talks, one whose AM was killed in its only try."""

    failed: LiveJob
    done: LiveJob
    running: LiveJob
    talks: LiveJob
    vanished: LiveJob


@pytest.fixture(scope="module")
def jobs(adult: AdultData, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Those that run have work for half an hour."""
    folder = tmp_path_factory.mktemp("programs")

    def program(name: str, code: str) -> LiveJob:
        (folder / f"{name}.py").write_text(code)
        job = {"name": name, "program": f"{name}.py", "roles": {"worker": {"memory": "512 MiB"}},
               "am": {"memory": "640 MiB", "attempts": 1}, "restart": {"worker": {"max": 0}},
               "tags": {"team": "feeds"}}  # fmt: skip
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(job))
        return LiveJob.submit(folder / f"{name}.yaml", adult.jobs_root, "--runtime", "yarn")

    def train(name: str, *settings: str) -> LiveJob:
        options = [option for each in (f"name={name}", *SMALL, *settings) for option in ("--set", each)]
        return LiveJob.submit(JOB_FILE, adult.jobs_root, *adult.options, *options)

    done, failed = train("income by day", "data.epochs=1"), program("ctr without age", FAILS)
    assert failed.verdict().state == "FAILED", failed.story()
    vanished = program("nobody knows", TALKS)
    vanished.wait(lambda: bool(vanished.events(ev.TaskRegistered)), "it runs")
    for process in vanished.processes():  # what YARN runs of the AM, before that could say anything
        if "com.anaconda.skein.ApplicationMaster" in process.cmdline():
            process.kill()
    assert done.verdict().state == "SUCCEEDED", done.story()
    running = train("income for ever", "data.epochs=500", "data.batch_size=32", "checkpoint.every=5s")
    talks = program("talks", TALKS)
    running.wait(lambda: running.step() > 0, "it trains")
    talks.wait(lambda: bool(talks.events(ev.TaskRegistered)), "it runs")
    yield Jobs(failed, done, running, talks, vanished)
    for job in (running, talks):
        afo("kill", job.id)
        job.wait_for_no_process(60)


@pytest.fixture(scope="module")
def server(jobs: Jobs) -> Iterator[str]:
    """The address of a history server that `afo history start` started.

    It ends before the jobs do: its TensorBoards name jobs in their arguments, and none may outlive it.
    """
    started = afo("history", "start", "--runtime", "yarn", "--port", "0")
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip().rstrip("/")
    assert afo("history", "stop").returncode == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(browser.new_context(viewport={"width": WIDE, "height": 800})) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Nothing may be complained about on it."""
    watched = Watched(context.new_page())
    yield watched.page
    assert watched.complaints == []


def picture(page: Page, name: str) -> None:
    """For people: what the test saw."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def test_a_failed_job_is_found_and_says_why_above_the_fold(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(server)
    page.keyboard.press("/")
    page.keyboard.type("without age team=feeds")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="ctr without age").click()
    for words in ("FAILED", "no feature 'age' in the schema", "Failing task."):
        place = page.get_by_text(words).first.bounding_box()
        assert place is not None, words
        assert place["y"] + place["height"] < 800, words
    picture(page, "failed")
    page.locator("#diagnosis").get_by_role("link", name="stderr").first.click()
    expect(page.get_by_text("reading the features")).to_be_visible()


def addresses(jobs: Jobs) -> dict[str, str]:
    """Pages of these jobs, by names for their pictures."""
    pages = {"list": "/", "compare": f"/compare?job={jobs.done.id}&job={jobs.running.id}", "fleet": "/fleet",
             "nodes": "/nodes", "log": f"/jobs/{jobs.done.id}/logs/worker_0/0/stderr"}  # fmt: skip
    pages |= {name: f"/jobs/{job.id}" for name, job in vars(jobs).items()}
    return pages | {part: f"/jobs/{jobs.running.id}/{part}" for part in ("data", "settings", "events")}


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_pages_of_real_jobs_fit_and_hinder_nobody(
    browser: Browser, server: str, jobs: Jobs, width: int, scheme: str
) -> None:
    with closing(browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)) as context:
        watched = Watched(context.new_page())
        for name, address in addresses(jobs).items():
            watched.page.goto(server + address)
            watched.check()
            picture(watched.page, f"{name}-{width}-{scheme}")


def test_two_jobs_are_compared_from_the_list(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/?q=income")
    for job in (jobs.done, jobs.running):
        page.get_by_label(f"choose {job.id}").check()
    page.get_by_role("button", name="Compare selected jobs").click()
    expect(page.get_by_role("heading", name="2 jobs side by side")).to_be_visible()
    expect(page.locator(".chart path.line, .chart polyline.line").first).to_be_visible()
    row = page.locator("tr", has_text="data.epochs")
    expect(row).to_contain_text("500")


def test_the_log_of_a_running_task_is_followed(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/jobs/{jobs.talks.id}")
    page.locator("#worker-0-0").get_by_role("link", name="stdout").click()
    line = page.locator(".log span").last
    before = line.inner_text()
    assert re.search(r"step \d+", before)
    expect(line).not_to_have_text(before, timeout=60_000)
    expect(line).to_contain_text("step")
    expect(line).to_be_in_viewport()


def test_the_log_of_a_running_master_is_followed(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/jobs/{jobs.talks.id}/logs/am/1/stderr")
    expect(page.locator(".log")).to_contain_text("GenerationStarted", timeout=60_000)


def test_tensorboard_shows_scalars_of_a_running_and_of_a_finished_job(
    context: BrowserContext, server: str, jobs: Jobs
) -> None:
    page = context.new_page()
    page.goto(f"{server}/?q=income")
    for job in (jobs.done, jobs.running):
        page.get_by_label(f"choose {job.id}").check()
    page.get_by_role("button", name="Open their TensorBoard").click()
    page.wait_for_url(re.compile(r"//localhost:\d+/tb/.*"), wait_until="commit")
    expect(page.get_by_text("loss").first).to_be_visible(timeout=120_000)
    for job in (jobs.done, jobs.running):
        expect(page.get_by_text(job.id).first).to_be_visible(timeout=60_000)
    expect(page.locator("line-chart svg, svg.lines").first).to_be_visible(timeout=60_000)
    picture(page, "tensorboard")
    address = page.url.partition("#")[0].partition("?")[0]
    runs = page.evaluate("address => fetch(address + 'data/runs').then(answer => answer.json())", address)
    assert {job.id for job in (jobs.done, jobs.running) if any(job.id in run for run in runs)} == {
        jobs.done.id, jobs.running.id,
    }  # fmt: skip


def status(address: str) -> int:
    """Of an answer."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return int(answer.status)


@pytest.mark.slow
def test_what_tasks_use_is_drawn_and_told_to_prometheus(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/jobs/{jobs.running.id}")
    for task in ("worker-0-0", "ps-0-0"):
        expect(page.locator(f"#{task} svg.spark path").first).to_be_attached(timeout=150_000)
    targets = {
        each["labels"]["job_id"]: each["targets"][0] for each in page.request.get(f"{server}/metrics/jobs").json()
    }
    assert set(targets) >= {jobs.running.id, jobs.talks.id}
    with urllib.request.urlopen(f"http://{targets[jobs.running.id]}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    step = re.search(r"^afo_job_step (\d+)\.0$", text, re.M)
    assert step is not None
    assert int(step[1]) > 0
    assert re.search(r'^afo_task_memory_bytes\{task="worker:0"\} [1-9]', text, re.M)


@pytest.mark.slow
@pytest.mark.usefixtures("jobs")
def test_kill_9_of_the_server_loses_nothing(context: BrowserContext, server: str) -> None:
    page = context.new_page()
    page.goto(server)
    shown = page.locator("tbody a.name").all_inner_texts()
    note = yaml.safe_load((Path(os.environ["AFO_STATE_DIR"]) / "history" / "server.json").read_text())
    for pause in (0.0, 0.3, 1.0, 2.5):
        process = psutil.Process(int(note["pid"]))
        process.send_signal(signal.SIGKILL)
        psutil.wait_procs([process], timeout=30)
        port = server.rpartition(":")[2]
        assert afo("history", "status").returncode == 5
        started = afo("history", "start", "--runtime", "yarn", "--port", port)
        assert started.stdout.strip().rstrip("/") == server, started.stderr
        note = yaml.safe_load((Path(os.environ["AFO_STATE_DIR"]) / "history" / "server.json").read_text())
        time.sleep(pause)
    page.reload()
    assert page.locator("tbody a.name").all_inner_texts() == shown


@pytest.mark.slow
def test_hdfs_that_is_lost_for_a_while(context: BrowserContext, server: str, jobs: Jobs, hadoop: Cluster) -> None:
    page = context.new_page()
    page.goto(server)
    hadoop.kill_daemon("namenode")
    try:
        stale = page.get_by_text("nothing newer can be")
        expect(stale).to_be_visible(timeout=180_000)
        expect(page.get_by_role("link", name="income by day")).to_be_visible()
        picture(page, "hdfs-lost")
        answer = page.request.get(f"{server}/jobs/{jobs.done.id}", timeout=180_000)
        assert answer.status in (200, 503), answer.text()
    finally:
        hadoop.start_daemon("namenode")
    expect(stale).to_be_hidden(timeout=180_000)
    assert status(f"{server}/jobs/{jobs.done.id}") == 200
    before = jobs.running.splits_done()
    jobs.running.wait(lambda: jobs.running.splits_done() > before, "it trains on")


@pytest.mark.slow
def test_a_job_is_saved_profiled_and_killed_from_its_page(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/jobs/{jobs.running.id}")
    expect(page.get_by_text("kill it or have it save from here, sign in")).to_be_visible()
    page.goto(afo("history", "login").stdout.strip())
    page.goto(f"{server}/jobs/{jobs.running.id}")

    ordered, saved = len(jobs.running.events(ev.OrderGiven)), len(jobs.running.events(ev.CheckpointWritten))
    page.get_by_text("Checkpoint…").click()
    page.get_by_role("button", name="Save now").click()
    expect(page.get_by_text("The chief was asked to save at its next step.")).to_be_visible()
    jobs.running.wait(lambda: len(jobs.running.events(ev.OrderGiven)) > ordered, "the order is there")
    jobs.running.wait(lambda: len(jobs.running.events(ev.CheckpointWritten)) > saved, "it has saved")

    page.get_by_text("Profile…").click()
    page.get_by_label("Task").select_option("worker:0")
    page.get_by_label("Seconds").fill("2")
    page.get_by_role("button", name="Take a profile").click()
    taken = page.locator("h2", has_text="Profiles").locator("+ ul").locator("li", has_text="worker:0")
    expect(taken).to_be_visible(timeout=180_000)
    expect(taken).not_to_contain_text("could not be taken")
    taken.get_by_role("link").click()
    expect(page.locator("tbody tr").first).to_be_visible()
    assert "MatMul" in page.locator("table").inner_text()
    picture(page, "profile")
    page.go_back()

    page.get_by_text("Notes and tags…").click()
    page.get_by_label("Notes", exact=True).fill("ends too late")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notes")).to_have_text("ends too late")

    page.goto(f"{server}/nodes")
    node = page.locator("tbody tr", has_text="RUNNING").filter(has_text="income for ever").first
    expect(node).to_contain_text(" GiB of ")
    page.goto(f"{server}/jobs/{jobs.running.id}")

    page.get_by_text("Kill…").click()
    page.get_by_label("Reason, kept with the job").fill("seen enough")
    page.get_by_role("button", name="Kill this job").click()
    expect(page.locator("h1")).to_contain_text("KILLED", timeout=120_000)
    expect(page.get_by_text("seen enough").first).to_be_visible()
    assert storage.exists(jobs.running.paths.verdict)
    picture(page, "killed")


@pytest.mark.slow
def test_a_job_whose_application_master_is_gone_is_closed(page: Page, server: str, jobs: Jobs) -> None:
    page.goto(f"{server}/jobs/{jobs.vanished.id}")
    expect(page.locator("h1")).to_contain_text("FAILED", timeout=200_000)
    expect(page.locator("#diagnosis code").first).to_have_text("master_lost")
    assert jobs.vanished.verdict().cause == "master_lost"
    picture(page, "vanished")

"""The pages in a real browser: wide and narrow, light and dark, and what moves on them."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Page, expect

from afo.events import types as ev
from afo.rpc.messages import Usage
from job_writer import DONE, FAILED, RUNNING, JobWriter, task_id
from real_browser import NARROW, WIDE, Watched, chromium

ADDRESSES = (
    "/", "/?q=nothing", "/nodes", "/serving", "/fleet?since=2025-01-01&by=tag:team", f"/jobs/{DONE}", f"/jobs/{FAILED}",
    f"/jobs/{RUNNING}", f"/jobs/{DONE}/data", f"/jobs/{DONE}/features",
    f"/jobs/{DONE}/settings", f"/jobs/{DONE}/events", f"/compare?job={DONE}&job={RUNNING}",
    f"/jobs/{FAILED}/logs/worker_0/0/stderr", f"/jobs/{FAILED}/logs/worker_0/0/stderr/search?errors=1",
)  # fmt: skip
LOG = b"".join(b"2026-11-21 08:%02d:00 INFO step %d %s\n" % (n // 10, n, b"long " * 40) for n in range(100))


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def server(root: str) -> Iterator[str]:
    """The address of a real server over `root`."""
    command = [sys.executable, "-m", "afo_history_server", "--root", root, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
        process.terminate()
        process.communicate()


@pytest.fixture
def jobs(done: JobWriter, failed: JobWriter, running: JobWriter) -> None:
    """With something in each part of their pages."""
    failed.write_log("worker_0", 0, "stderr", LOG + b"ValueError: no feature\n")
    for step in range(1, 40):
        running.log(ev.Sample(step=step, samples=step, samples_per_s=900.0 + step, input_wait=0.4, loss=1 / step))
    worker = task_id("worker", 7)
    running.task(worker).log(
        ev.ProcessEnded(task=worker, cause="user_exception", code=1, message="x" * 300, number=1),
        ev.TaskEnded(task=worker, cause="memory_limit", code=1, message="too much", usage=Usage(peak_rss=1900 << 20)),
    )


def pages(browser: Browser, width: int = WIDE, scheme: str = "light") -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    yield Watched(context.new_page())
    context.close()


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_each_page_fits_and_hinders_nobody(browser: Browser, server: str, width: int, scheme: str) -> None:
    for watched in pages(browser, width, scheme):
        for address in ADDRESSES:
            watched.page.goto(server + address)
            watched.check()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Nothing may be complained about on it."""
    for watched in pages(browser):
        yield watched.page
        assert watched.complaints == []


@pytest.mark.usefixtures("jobs")
def test_a_failed_job_is_found_and_says_why_above_the_fold(page: Page, server: str) -> None:
    page.goto(server)
    page.keyboard.press("/")
    page.keyboard.type("user_exception")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="ctr <script>alert(1)</script>").click()
    for words in ("The program raised an exception.", "What to do.", "ValueError: no feature"):
        place = page.get_by_text(words).first.bounding_box()
        assert place is not None
        assert place["y"] + place["height"] < 800, words
    page.locator("#diagnosis").get_by_role("link", name="stderr").click()
    page.get_by_role("link", name="Errors").click()
    page.locator("tbody a").first.click()
    line = page.locator("span:target")
    expect(line).to_contain_text("ValueError: no feature")
    expect(line).to_be_in_viewport()


@pytest.mark.usefixtures("jobs")
def test_the_list_is_fresh_by_itself_unless_it_is_paused(
    page: Page, server: str, writer: Callable[..., JobWriter], running: JobWriter
) -> None:
    page.goto(server)
    page.get_by_label(f"choose {DONE}").check()
    page.locator("h1").click()  # somebody who is busy with the list is not disturbed
    writer("local_1763000900000_0099", "just now").begin()
    expect(page.get_by_text("just now")).to_be_visible(timeout=15_000)
    expect(page.get_by_label(f"choose {DONE}")).to_be_checked()
    page.get_by_label(f"choose {RUNNING}").check()
    page.get_by_role("button", name="Compare selected jobs").click()
    expect(page.get_by_role("heading", name="2 jobs side by side")).to_be_visible()

    page.goto(f"{server}/jobs/{RUNNING}")
    page.get_by_role("button", name="Live").click()
    running.end("SUCCEEDED", "succeeded", auc=0.5)
    page.wait_for_timeout(6000)
    expect(page.locator("h1")).to_contain_text("RUNNING")
    page.get_by_role("button", name="Paused").click()
    page.locator("h1").click()
    expect(page.locator("h1")).to_contain_text("SUCCEEDED", timeout=15_000)
    expect(page.get_by_text("Core-hours")).to_be_visible(timeout=15_000)


def test_a_log_is_followed_to_its_end(page: Page, server: str, running: JobWriter) -> None:
    running.write_log("worker_0", 0, "stderr", LOG)
    page.goto(f"{server}/jobs/{RUNNING}/logs/worker_0/0/stderr")
    running.write_log("worker_0", 0, "stderr", LOG + b"one more line\n")
    expect(page.get_by_text("one more line")).to_be_in_viewport(timeout=10_000)


def test_a_server_that_is_gone_is_said(browser: Browser, server: str, running: JobWriter) -> None:
    for watched in pages(browser):
        watched.page.goto(server)
        watched.page.route("**/*", lambda route: route.abort())
        expect(watched.page.locator("button.stale")).to_be_visible(timeout=10_000)
        expect(watched.page.locator("button.stale")).to_have_attribute(
            "title", "The server does not answer; what you see is old."
        )


#: Parts of pages, what other programs read, and what leads to a page.
_NO_PAGES = ("static", "api.", "metrics.", "tensorboard.", "signing_in.", "logs.search", "logs.at", "logs.download",
             "profiles.download")  # fmt: skip


def test_each_page_is_named_and_opened_in_a_browser(client: FlaskClient) -> None:
    """By docs/history-server.md and `ADDRESSES`; a profile's page has its own test."""
    text = (Path(__file__).parents[3] / "docs" / "history-server.md").read_text()
    rules = [each for each in client.application.url_map.iter_rules() if "GET" in (each.methods or ())]
    pages = {each.rule for each in rules if not each.endpoint.startswith(_NO_PAGES)}
    assert len(pages) > 9
    patterns = {page: re.sub(r"<[^>]+>", r"[^/`?]+", page) for page in pages}
    assert not {page for page, pattern in patterns.items() if not re.search(rf"`{pattern}[`?]", text)}
    paths = [each.split("?")[0] for each in ADDRESSES]
    opened = {page for page, pattern in patterns.items() if any(re.fullmatch(pattern, path) for path in paths)}
    assert pages - opened == {"/jobs/<job_id>/profiles/<name>"}

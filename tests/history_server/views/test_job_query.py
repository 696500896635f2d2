"""Search, filters and order of the list, which all lie in its address."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from afo.events import types as ev
from afo_history_server.model.job_history import STATES
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.job_index import line_of
from afo_history_server.views.chosen_columns import column
from afo_history_server.views.job_query import SORTS, JobQuery
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter


def ids(client: FlaskClient, query: str) -> list[str]:
    """Jobs of the page in their order; the JSON must have the same."""
    page = client.get(f"/?{query}")
    assert page.status_code == 200, page.text
    shown = re.findall(r'class="name" href="/jobs/([^"]*)"', page.text)
    assert [job["job_id"] for job in client.get(f"/api/v1/jobs?{query}").json["jobs"]] == shown
    return shown


@pytest.fixture
def three(writer: Callable[..., JobWriter]) -> None:
    """Of two users, queues and teams, in three states."""
    writer(DONE, "feeds-ctr", user="alice", queue="ads", tags={"team": "feeds"}).begin().end(
        "SUCCEEDED", "succeeded", auc=0.75
    )
    writer(FAILED, "Search CVR", begun=T0 + 86400, user="bob", queue="ads", tags={"team": "search"}).begin().end(
        "FAILED", "user_exception"
    )
    runs = writer(RUNNING, "feeds-rank", begun=T0 + 2 * 86400, user="bob", queue="free", tags={"team": "feeds"}).begin()
    runs.log(ev.GenerationStarted(generation=1, ps=()))


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [RUNNING, FAILED, DONE]),
        ("q=feeds", [RUNNING, DONE]),
        ("q=FEEDS+alice", [DONE]),
        ("q=search", [FAILED]),
        ("q=user_exc", [FAILED]),
        (f"q={FAILED}", [FAILED]),
        ("q=team=feeds", [RUNNING, DONE]),
        ("user=bob", [RUNNING, FAILED]),
        ("user=bo", []),
        ("queue=ads", [FAILED, DONE]),
        ("state=FAILED", [FAILED]),
        ("state=FAILED&state=RUNNING", [RUNNING, FAILED]),
        ("cause=user_exception", [FAILED]),
        ("tag=team", [RUNNING, FAILED, DONE]),
        ("tag=team=search", [FAILED]),
        ("tag=cost", []),
        ("since=2025-11-14", [RUNNING, FAILED]),
        ("until=2025-11-14", [FAILED, DONE]),
        ("since=2025-11-14&until=2025-11-14", [FAILED]),
        ("since=2025-11-14T02:13:16Z", [RUNNING]),
        ("since=2025-11-14T02:13:15Z", [RUNNING, FAILED]),
        ("sort=name&order=asc", [DONE, RUNNING, FAILED]),
        ("sort=name", [FAILED, RUNNING, DONE]),
        ("sort=auc&order=asc", [DONE, RUNNING, FAILED]),
        ("sort=began&order=asc", [DONE, FAILED, RUNNING]),
    ],
)
def test_what_is_found(client: FlaskClient, query: str, found: list[str]) -> None:
    assert ids(client, query) == found


@pytest.mark.usefixtures("three")
def test_links_and_the_form_keep_the_question(client: FlaskClient) -> None:
    page = client.get("/?user=bob&q=e&sort=name&size=1&state=FAILED&state=RUNNING").text
    links = [parse_qs(urlsplit(html.unescape(each)).query) for each in re.findall(r'href="(/\?[^"]*)"', page)]
    assert len(links) > 8
    for link in links:
        assert link["state"] == ["FAILED", "RUNNING"]
        assert (link["user"], link["q"], link["size"]) == (["bob"], ["e"], ["1"])
    assert {"page": ["2"]}.items() <= next(link for link in links if "page" in link).items()
    assert '<input type="hidden" name="sort" value="name">' in page
    assert '<th aria-sort="descending">' in page
    assert "2 of 3 in" in page


@pytest.fixture
def tried(writer: Callable[..., JobWriter]) -> None:
    """Two that say how fast they learn, one that does not; a secret."""
    for job_id, rate, auc in ((DONE, 0.5, 0.75), (FAILED, 0.05, 0.7), (RUNNING, None, 0.8)):
        job = writer(job_id, "a", tags={"team": "x"} if rate else {})
        document = json.loads(Path(job.paths.job).read_bytes())
        said = {"optimizer": {"deep": {"adam": {"learning_rate": rate}}}} if rate else {}
        said["model"] = {"params": {"api_token": "hunter2"}}
        document["job"] |= said
        document["source"] = {"text": "", "tree": said}
        Path(job.paths.job).write_text(json.dumps(document))
        job.begin().end("SUCCEEDED", "succeeded", auc=auc)


RATE = "params.optimizer.deep.adam.learning_rate"


def test_durations_and_memory_are_sorted_by_their_length_and_size() -> None:
    for values in (("90s", "2m", "1h", "1d"), ("512 MiB", "2 GiB", "10 GiB", "20 GiB")):
        jobs = [JobSummary(job_id=each, params={"x": each}, tags={"x": each}) for each in values]
        mixed = [jobs[place] for place in (2, 0, 3, 1)]
        assert sorted(mixed, key=column("params.x").order) == jobs
        assert sorted(mixed, key=column("tags.x").order) != jobs


@pytest.mark.usefixtures("tried")
def test_columns_are_shown_and_sorted_by(client: FlaskClient) -> None:
    assert ids(client, f"column={RATE}&sort={RATE}&order=asc") == [FAILED, DONE, RUNNING]
    assert ids(client, f"column={RATE}&sort={RATE}") == [DONE, FAILED, RUNNING]
    assert ids(client, "sort=metrics.auc") == [RUNNING, DONE, FAILED]
    answer = client.get(f"/api/v1/jobs?column=metrics.auc&column={RATE}&column=tags.team&sort={RATE}").json
    assert answer["columns"] == ["metrics.auc", RATE, "tags.team"]
    assert answer["cells"] == [[0.75, "0.5", "x"], [0.7, "0.05", "x"], [0.8, None, None]]
    page = client.get(f"/?column={RATE}&sort={RATE}")
    assert re.search(
        r'<th class="number" aria-sort="descending"><a [^>]*>optimizer.deep.adam.learning_rate</a>', page.text
    )
    assert f'value="{RATE}" checked' in page.text
    assert 'value="metrics.auc">' in page.text, "offered, and not chosen"
    assert "hunter2" not in page.text + client.get("/api/v1/jobs").text
    assert client.get("/api/v1/jobs").json["columns"] == ["metrics.auc"]


@pytest.mark.usefixtures("three")
def test_nothing_found_leads_back(client: FlaskClient) -> None:
    assert "No matching jobs" in client.get("/?q=nothing").text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sort=jobs", "allowed is began, name"),
        ("sort=params.", "column is &#39;params.&#39;; allowed is metrics.NAME"),
        ("column=auc", "column is &#39;auc&#39;; allowed is metrics.NAME"),
        ("&".join(f"column=metrics.m{each}" for each in range(13)), "13 columns; allowed are 12"),
        ("order=up", "allowed is asc, desc"),
        ("state=failed", "allowed is SUBMITTED"),
        ("since=yesterday", "allowed is a day like 2026-11-20"),
        ("until=9999-12-31", "allowed is a day like"),
        ("usr=bob", "&#39;usr&#39; is nothing to ask for here; allowed is q, user"),
        ("q=" + "x" * 201, "allowed are 200"),
    ],
)
def test_what_cannot_be_asked_is_said(client: FlaskClient, query: str, words: str) -> None:
    for address in (f"/?{query}", f"/api/v1/jobs?{query}"):
        answer = client.get(address)
        assert answer.status_code == 400
        assert words.replace("&#39;", "'") in html.unescape(answer.text)


SUMMARIES = st.builds(
    JobSummary,
    job_id=st.sampled_from([DONE, FAILED, RUNNING]),
    name=st.sampled_from(["", "a", "B"]),
    state=st.sampled_from(STATES),
    started=st.sampled_from([0.0, T0, T0 + 1]),
    seconds=st.none() | st.floats(0, 9),
    auc=st.none() | st.floats(0, 1),
)
QUERIES = st.builds(
    JobQuery,
    q=st.sampled_from(["", "a", "b"]),
    state=st.sampled_from([(), ("RUNNING",), STATES]),
    sort=st.sampled_from(sorted(SORTS)),
    descending=st.booleans(),
)


@given(st.lists(SUMMARIES), QUERIES)
def test_order_and_choice(jobs: list[JobSummary], query: JobQuery) -> None:
    lines = sorted(map(line_of, jobs), key=lambda line: line.order, reverse=True)
    found = query.of(lines)
    wanted = [job for job in jobs if query.q in f"{job.job_id}{job.name}".lower()]
    assert sorted(map(str, found)) == sorted(str(job) for job in wanted if not query.state or job.state in query.state)
    values = [SORTS[query.sort](job) for job in found]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == known, "unknown ones are last"
    assert known == sorted(known, reverse=query.descending)

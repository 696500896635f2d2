"""All jobs of a time together."""

import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from afo_history_server.fleet import fleet, group_of, waited
from afo_history_server.job_summary import JobSummary
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter
from pages import text, words

OTHER = "application_1763000000001_0009"


@pytest.fixture
def week(writer: Callable[..., JobWriter]) -> None:
    """Four jobs of two users; each that ended took 1.25 core-hours."""
    feeds, search = {"team": "feeds"}, {"team": "search"}
    writer(DONE, "a", user="alice", tags=feeds).begin().end("SUCCEEDED", "succeeded")
    writer(FAILED, "b<i>", user="bob", tags=search).begin().end("FAILED", "user_exception")
    writer(OTHER, "old", user="bob", begun=T0 - 30 * 86400).begin().end("FAILED", "memory_limit")
    writer(RUNNING, "c", user="bob", tags=feeds).begin()


def tables(page: str) -> list[list[str]]:
    """Rows of the page's tables, as words."""
    return [
        [words(row) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]
        for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    ]


@pytest.mark.usefixtures("week")
def test_the_last_week_by_user(client: FlaskClient) -> None:
    page = text(client, "/fleet")
    facts = words(page)
    assert "Ended 2 Failed 1 Running 1 Core-hours 2.5 Of jobs without success 1.25" in facts
    groups, causes = tables(page)
    assert sorted(groups) == ["alice 1 0 1.25 0 0 0 %", "bob 1 1 1.25 1.25 0 100 %"]
    assert causes == ["user_exception 1"]
    assert "No job waited for its input" in page


@pytest.mark.usefixtures("week")
def test_another_time_and_tags(client: FlaskClient) -> None:
    groups = tables(text(client, "/fleet?since=2025-10-01&by=tag:team"))[0]
    assert sorted(each.split()[0] for each in groups) == ["feeds", "search", "–"]
    assert tables(text(client, "/fleet?since=2025-10-01&until=2025-10-31"))[1] == ["memory_limit 1"]
    assert "None failed" in text(client, "/fleet?since=2024-01-01&until=2024-12-31")


@pytest.mark.usefixtures("week")
def test_a_cause_leads_to_its_jobs(client: FlaskClient) -> None:
    [link] = re.findall(r'href="(/\?[^"]*)"><code>user_exception', text(client, "/fleet"))
    found = text(client, link.replace("&amp;", "&"))
    assert re.findall(r'class="name" href="/jobs/([^"]*)"', found) == [FAILED]


@pytest.mark.parametrize("query", ["by=colour", "by=tag:", "since=x", "week=1"])
def test_what_cannot_be_asked_is_said(client: FlaskClient, query: str) -> None:
    assert "allowed is" in text(client, f"/fleet?{query}", 400)


JOBS = st.lists(
    st.builds(
        JobSummary,
        job_id=st.just(DONE),
        user=st.sampled_from(["", "a", "b"]),
        state=st.sampled_from(["RUNNING", "SUCCEEDED", "FAILED", "KILLED"]),
        cause=st.sampled_from(["memory_limit", "stalled"]),
        core_hours=st.none() | st.floats(0, 1e6),
        input_wait=st.none() | st.floats(0, 1),
    )
)


@given(JOBS)
def test_groups_add_up_and_the_largest_come_first(jobs: list[JobSummary]) -> None:
    group = group_of("user")
    assert group is not None
    found = fleet(jobs, group)
    assert found.running + found.total.jobs == len(jobs)
    for field in ("jobs", "failed", "core_hours", "lost", "waiting"):
        parts = sum(getattr(each, field) for each in found.groups)
        assert parts == pytest.approx(getattr(found.total, field), abs=1e-6)
    taken = [each.core_hours for each in found.groups]
    assert taken == sorted(taken, reverse=True)
    assert 0 <= found.total.wasted <= 1 + 1e-9
    assert sum(count for _, count in found.causes) == found.total.failed
    assert [waited(job) for job in found.slowest] == sorted(map(waited, found.slowest), reverse=True)

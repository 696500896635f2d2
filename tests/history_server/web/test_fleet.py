"""All jobs of a time together."""

import re
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from afo import storage
from afo.formats import json_file
from afo.protocol.profile_request import OPERATORS, Operator, Operators
from afo_history_server.model.job_summary import JobSummary
from afo_history_server.store.job_files import JobFiles
from afo_history_server.views.fleet import fleet, group_of, wait_core_hours
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
    assert "Ended 2 Failed 1 Running 1 Core-hours 2.5 Core-hours of unsuccessful jobs 1.25" in facts
    groups, causes = tables(page)
    assert sorted(groups) == ["alice 1 0 1.25 0 0 0 %", "bob 1 1 1.25 1.25 0 100 %"]
    assert causes == ["user_exception 1"]
    assert "No job waited for its input" in page


@pytest.mark.usefixtures("week")
def test_another_time_and_tags(client: FlaskClient) -> None:
    groups = tables(text(client, "/fleet?since=2025-10-01&by=tag:team"))[0]
    assert sorted(each.split()[0] for each in groups) == ["feeds", "search", "–"]
    assert tables(text(client, "/fleet?since=2025-10-01&until=2025-10-31"))[1] == ["memory_limit 1"]
    assert "No failures" in text(client, "/fleet?since=2024-01-01&until=2024-12-31")


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
    assert [wait_core_hours(job) for job in found.slowest] == sorted(map(wait_core_hours, found.slowest), reverse=True)


def profile(job: JobWriter, order: int, **milliseconds: float) -> None:
    """One of a worker."""
    operators = tuple(Operator(name=name, milliseconds=took, calls=1) for name, took in milliseconds.items())
    place = f"{job.paths.summaries}/profile-worker_0-{order}/{OPERATORS}"
    storage.write_bytes(place, json_file.encode(Operators(seconds=1.0, operators=operators)))


@pytest.mark.usefixtures("done", "failed")
def test_without_a_profile_the_page_says_how_to_take_one(client: FlaskClient) -> None:
    assert "No profile was taken of these jobs" in text(client, "/fleet")


@pytest.mark.usefixtures("running")
def test_profiles_of_jobs_are_added_up_and_read_once(
    client: FlaskClient, done: JobWriter, failed: JobWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile(done, 1, MatMul=30.0, Gather=10.0)
    profile(done, 2, MatMul=30.0)
    profile(failed, 1, Gather=30.0)
    storage.write_bytes(f"{failed.paths.summaries}/profile-worker_0-2/{OPERATORS}", b"{")
    read: list[str] = []
    read_file = JobFiles.read

    def counted(self: JobFiles, url: str, limit: int) -> bytes:
        read.append(url)
        return read_file(self, url, limit)

    monkeypatch.setattr(JobFiles, "read", counted)
    for _ in range(2):
        found = client.get("/api/v1/fleet").json["operators"]
        assert [(each["name"], each["share"], each["milliseconds"], each["jobs"]) for each in found] == [
            ("MatMul", 0.6, 60.0, 1), ("Gather", 0.4, 40.0, 2),
        ]  # fmt: skip
    assert len([url for url in read if url.endswith(OPERATORS)]) == 4
    assert tables(text(client, "/fleet"))[-1] == ["MatMul 60 % 60 1", "Gather 40 % 40 2"]

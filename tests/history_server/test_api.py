"""Answers for programs."""

import re

import pytest
from flask.testing import FlaskClient

from afo import storage
from job_writer import DONE, FAILED, RUNNING, JobWriter


def test_the_list(client: FlaskClient, done: JobWriter, failed: JobWriter, running: JobWriter) -> None:
    answer = client.get("/api/v1/jobs?size=2").json
    assert answer["api"] == "afo/v1"
    assert (answer["total"], answer["pages"], answer["left_out"]) == (3, 2, 0)
    assert [job["job_id"] for job in answer["jobs"]] == [RUNNING, FAILED]
    assert client.get("/api/v1/jobs?size=2&page=2").json["jobs"][0]["auc"] == pytest.approx(0.7512)


def test_a_job(client: FlaskClient, failed: JobWriter) -> None:
    job = client.get(f"/api/v1/jobs/{FAILED}").json["job"]
    assert (job["state"], job["cause"], job["samples"]) == ("FAILED", "user_exception", 123456)
    assert job["first_task"] == {"role": "worker", "index": 0, "attempt": 0}
    assert job["attempts"][0]["tail"].endswith("no feature <b>age</b>")


def test_events(client: FlaskClient, running: JobWriter) -> None:
    answer = client.get(f"/api/v1/jobs/{RUNNING}/events?limit=2").json
    assert (answer["total"], [each["event"]["type"] for each in answer["events"]]) == (6, ["Sample", "TaskRegistered"])
    assert answer["events"][0]["seq"] == 6


@pytest.mark.parametrize(
    ("address", "status"),
    [
        (f"jobs/{DONE}", 404),
        ("jobs/no-job", 404),
        ("jobs?page=x", 400),
        (f"jobs/{DONE}/events?limit=501", 400),
        ("x", 404),
    ],
)
def test_errors_are_objects_too(client: FlaskClient, address: str, status: int) -> None:
    answer = client.get(f"/api/v1/{address}")
    assert (answer.status_code, answer.json["error"]["status"]) == (status, status)


def test_metrics(client: FlaskClient, done: JobWriter, failed: JobWriter, running: JobWriter) -> None:
    running.raw(b"{broken\n")
    storage.write_bytes(failed.paths.verdict, b"{")
    answer = client.get("/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert 'afo_history_jobs{state="RUNNING"} 1.0' in answer.text
    assert 'afo_history_jobs{state="FAILED"} 1.0' in answer.text
    assert "afo_history_parse_errors_total 2.0" in answer.text
    assert re.search(r"afo_history_scan_seconds_count 1\.0", answer.text)

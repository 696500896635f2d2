"""Answers for programs."""

import re
from collections.abc import Callable

import msgspec
import pytest
from flask.testing import FlaskClient

from afo import storage
from afo.events import types as ev
from afo_history_server.web.api.rest import DESCRIBED
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
    assert (answer["total"], [each["event"]["type"] for each in answer["events"]]) == (7, ["Sample", "TaskRegistered"])
    assert answer["events"][0]["seq"] == 7


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


def test_each_answer_is_as_it_is_described(client: FlaskClient, done: JobWriter, failed: JobWriter) -> None:
    failed.write_log("worker_0", 0, "stderr", b"one\ntwo\n")
    names = {"job_id": FAILED, "task": "worker_0", "attempt": "0", "stream": "stderr"}
    for route in (each for each in DESCRIBED if each.method == "get"):
        answer = client.get(route.path.format(**names))
        assert answer.status_code == 200, answer.text
        decoded = msgspec.json.decode(answer.data, type=route.answer)
        fields = {field.encode_name for field in msgspec.structs.fields(route.answer)}
        assert set(answer.json) == fields, route.path
        assert msgspec.json.decode(msgspec.json.encode(decoded)) == answer.json, "nothing is left out of its type"
        assert client.get(f"{route.path.format(**names)}?nothing=1").status_code == 400


def test_the_description_has_each_route_and_each_parameter(client: FlaskClient, done: JobWriter) -> None:
    described = client.get("/api/v1/openapi.json").json
    routes = {re.sub(r"<(\w+)>", r"{\1}", rule.rule) for rule in client.application.url_map.iter_rules()
              if rule.rule.startswith("/api/v1/")}  # fmt: skip
    assert set(described["paths"]) == routes - {"/api/v1/openapi.json"}
    for path, route in described["paths"].items():
        if "post" in route:
            schema = route["post"]["responses"]["202"]["content"]["application/json"]["schema"]["$ref"]
            assert schema.endswith("/ActionAnswer")
            continue
        operation = route["get"]
        asked = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
        place = path.format(job_id=DONE, task="ps_0", attempt="0", stream="stdout")
        allowed = client.get(f"{place}?nothing=1").json["error"]["message"].partition("allowed is ")[2]
        assert set(allowed.split(", ")) == set(asked or ["nothing"]), path
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        [schema] = re.findall(r"schemas/(\w+)", answer)
        assert "api" in described["components"]["schemas"][schema]["properties"]


def test_a_log_and_the_files(client: FlaskClient, failed: JobWriter) -> None:
    failed.write_log("worker_0", 0, "stderr", b"one\ntwo\n")
    log = client.get(f"/api/v1/jobs/{FAILED}/logs/worker_0/0/stderr?offset=2&length=3").json
    assert (log["lines"], log["start"], log["stop"], log["size"]) == ([{"offset": 4, "text": "two"}], 4, 8, 8)
    files = client.get(f"/api/v1/jobs/{FAILED}/files").json
    assert files["files"] == [{"url": "a", "progress": None}]


def test_metrics(client: FlaskClient, done: JobWriter, failed: JobWriter, running: JobWriter) -> None:
    running.raw(b"{broken\n")
    storage.write_bytes(failed.paths.verdict, b"{")
    answer = client.get("/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert 'afo_history_jobs{state="RUNNING"} 1.0' in answer.text
    assert 'afo_history_jobs{state="FAILED"} 1.0' in answer.text
    assert "afo_history_parse_errors_total 2.0" in answer.text
    assert re.search(r"afo_history_scan_seconds_count 1\.0", answer.text)


def test_where_the_metrics_of_running_jobs_are(
    client: FlaskClient, done: JobWriter, writer: Callable[..., JobWriter]
) -> None:
    running = writer("local_1763000000000_0005", "talks", user="ann").begin()
    running.log(ev.AmStarted(am_attempt=1, incarnation=2, address="h:1", host="h", pid=1, metrics="h:9100"))
    assert client.get("/metrics/jobs").json == [
        {"targets": ["h:9100"],
         "labels": {"job_id": "local_1763000000000_0005", "name": "talks", "user": "ann", "queue": "default"}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("address", "listed"),
    [("node-1.example.com:40000", True), ("10.0.0.7:1024", True), ("[fd00::1]:65535", True),
     ("169.254.169.254:80", False), ("namenode:9870/../x?y=", False), ("h:9100\n", False), ("u@h:9100", False),
     ("h:65536", False), ("h:٩١٠٠", False), ("[::1]@h]:9100", False), ("Z" * 254 + ":9100", False), ("", False)],
)  # fmt: skip
def test_only_a_host_and_a_port_are_told_to_prometheus(
    client: FlaskClient, running: JobWriter, address: str, listed: bool
) -> None:
    running.log(ev.AmStarted(am_attempt=1, incarnation=2, address="h:1", host="h", pid=1, metrics=address))
    assert [each["targets"] for each in client.get("/metrics/jobs").json] == [[address]] * listed

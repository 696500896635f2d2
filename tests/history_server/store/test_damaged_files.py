"""Histories that are torn, of another version, or poisoned are shown as far as they can be."""

import json
import os
from collections.abc import Callable
from typing import NoReturn

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afo import storage
from afo.errors import ClusterUnreachable
from afo.events import types as ev
from afo.events.event_log import Record, encode_line, seal
from afo.events.event_tail import EventTail
from afo_history_server.model.job_summary import MOST_USERS, decode_head
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.live_job import MAX_LINE
from afo_history_server.web.app import create_app
from damaged_files import NESTED, damaged
from job_writer import DONE, FAILED, RUNNING, T0, JobWriter
from pages import browser

NEW = {
    "v": 3,
    "seq": 9,
    "am_attempt": 1,
    "incarnation": 1,
    "time": T0,
    "event": {"type": "Teleported", "to": "<b>Mars"},
}


def test_events_of_a_newer_version_are_kept(client: FlaskClient, running: JobWriter) -> None:
    running.raw(seal(json.dumps(NEW).encode()) + b"\n")
    page = client.get(f"/jobs/{RUNNING}/events").text
    assert "Teleported" in page
    assert "to=&lt;b&gt;Mars" in page
    assert "1 events come from another version" in page
    assert client.get(f"/api/v1/jobs/{RUNNING}/events").json["events"][0]["event"] == NEW["event"]


def test_a_torn_last_line_waits_for_its_end(client: FlaskClient, running: JobWriter) -> None:
    line = encode_line(
        Record(seq=9, am_attempt=1, incarnation=1, time=T0, event=ev.KillRequested(user="eve", reason="ü"))
    )
    running.raw(line[:-5])
    page = client.get(f"/jobs/{RUNNING}/events").text
    assert "KillRequested" not in page
    assert "damaged" not in page
    running.raw(line[-5:])
    assert client.get(f"/jobs/{RUNNING}/events").text.count("<td>KillRequested</td>") == 1


def test_damaged_lines_are_counted_and_passed_over(client: FlaskClient, running: JobWriter) -> None:
    running.raw(b'{"v": 1}\n\xff\xfe\x00\n[]\n\n')
    running.end("SUCCEEDED", "succeeded")
    page = client.get(f"/jobs/{RUNNING}").text
    assert "3 lines of the event log are damaged" in page
    assert "SUCCEEDED" in page


@pytest.mark.parametrize("name", ["job.json", "verdict.json"])
@pytest.mark.parametrize("data", [b"", b"{", b'"text"', b"\xff", b"[" * 100_000, NESTED, b'{"\xff": 1}'])
def test_damaged_documents_do_not_hide_a_job(
    client: FlaskClient, failed: JobWriter, done: JobWriter, name: str, data: bytes
) -> None:
    storage.write_bytes(f"{failed.paths.dir}/{name}", data)
    page = client.get("/").text
    assert FAILED in page
    assert DONE in page
    assert "user_exception" in client.get(f"/jobs/{FAILED}").text


def test_lines_whose_keys_are_no_text_hurt_nobody(client: FlaskClient, failed: JobWriter, done: JobWriter) -> None:
    failed.raw(b'{"\xff": 1}\n' + NESTED + b"\n")
    for address in ("/", "/metrics", f"/jobs/{FAILED}", f"/api/v1/jobs/{FAILED}/events"):
        assert client.get(address).status_code == 200, address
    assert "2 lines of the event log are damaged" in client.get(f"/jobs/{FAILED}").text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.sampled_from(["job", "verdict", "events"]))
def test_what_lies_in_a_directory_hurts_that_job_alone(
    failed: JobWriter, done: JobWriter, data: st.DataObject, which: str
) -> None:
    paths = failed.paths
    url = {"job": paths.job, "verdict": paths.verdict, "events": paths.events_segment(1, 1)}[which]
    whole = storage.read_bytes(url)
    try:
        storage.write_bytes(url, data.draw(damaged(whole)))
        fresh = browser(create_app(paths.root))
        for address in ("/", "/api/v1/jobs", "/metrics"):
            answer = fresh.get(address)
            assert answer.status_code == 200
        assert {DONE, FAILED} == {job["job_id"] for job in fresh.get("/api/v1/jobs").json["jobs"]}
        assert fresh.get(f"/jobs/{FAILED}").status_code < 500
    finally:
        storage.write_bytes(url, whole)


def test_a_fault_of_ours_in_one_job_does_not_hide_the_others(
    client: FlaskClient, failed: JobWriter, done: JobWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = JobFiles.read

    def broken(files: JobFiles, url: str, limit: int) -> bytes:
        if FAILED in url:
            raise ZeroDivisionError("a fault")
        return read(files, url, limit)

    monkeypatch.setattr(JobFiles, "read", broken)
    jobs = {job["job_id"]: job for job in client.get("/api/v1/jobs").json["jobs"]}
    assert jobs[FAILED]["state"] == "UNREADABLE"
    assert "ZeroDivisionError: a fault" in jobs[FAILED]["problem"]
    assert jobs[DONE]["state"] == "SUCCEEDED"


def test_documents_of_a_newer_version_are_read(client: FlaskClient, failed: JobWriter) -> None:
    for url in (failed.paths.job, failed.paths.verdict):
        storage.write_bytes(url, json.dumps({**json.loads(storage.read_bytes(url)), "colour": ["new"]}).encode())
    assert "bob" in client.get("/").text
    assert "user_exception" in client.get(f"/jobs/{FAILED}").text


def test_an_overlong_line_and_an_overlong_log(root: str, running: JobWriter) -> None:
    size = len(storage.read_bytes(running.paths.events_segment(1, 1)))
    running.raw(b"x" * 3500 + b"\n").end("SUCCEEDED", "succeeded", verdict=False)
    log = EventTail(running.paths.events, JobFiles(root), max_line=1000)
    assert len(list(log.poll())) == 9
    assert (log.damaged, log.stopped) == (1, "")
    short = EventTail(running.paths.events, JobFiles(root), max_log=size - 1, max_line=1000)
    assert len(list(short.poll())) == 7
    assert short.stopped == f"it is longer than {size - 1} bytes"
    assert list(short.poll()) == []


@pytest.mark.parametrize("number", [10**400, -(10**400), 1 << 64], ids=["far-above", "far-below", "above"])
def test_numbers_that_nothing_can_show_are_damage(client: FlaskClient, failed: JobWriter, number: int) -> None:
    storage.delete(failed.paths.verdict)
    sample = {"type": "Sample", "step": number, "samples": number, "samples_per_s": 1.0, "input_wait": 0.1, "loss": 0.5}
    leased = {"type": "SplitLeased", "task": {"role": "worker", "index": 0, "attempt": 1}, "row": number, "epoch": 0}
    for event in (sample, leased, {"type": "Future", "number": number}):
        failed.raw(seal(json.dumps({**NEW, "v": 2, "event": event}).encode()) + b"\n")
    for page in ("", "/data", "/events", "/settings"):
        assert client.get(f"/jobs/{FAILED}{page}").status_code == 200, page
    for page in ("", "/events", "/files"):
        assert client.get(f"/api/v1/jobs/{FAILED}{page}").status_code == 200, page
    assert "3 lines of the event log are damaged" in client.get(f"/jobs/{FAILED}").text


def test_a_verdict_and_a_job_with_numbers_that_nothing_can_show(client: FlaskClient, failed: JobWriter) -> None:
    for url in (failed.paths.job, failed.paths.verdict):
        document = json.loads(storage.read_bytes(url))
        storage.write_bytes(url, json.dumps({**document, "job": {"queue": 10**400}, "samples": 10**400}).encode())
    assert client.get("/").status_code == 200
    assert "123,456" in client.get(f"/jobs/{FAILED}").text, "what the event log says"
    answer = client.get(f"/jobs/{FAILED}/settings")
    assert (answer.status_code, "an integer of more than 64 bits" in answer.text) == (502, True)


def test_a_line_without_end_and_lines_without_events_stop_no_list(
    client: FlaskClient, done: JobWriter, failed: JobWriter, running: JobWriter
) -> None:
    """The first takes no space on the disk, the others little, and read whole each would take minutes."""
    storage.delete(failed.paths.verdict)
    os.truncate(failed.paths.events_segment(1, 1), 10 << 40)
    running.raw(b"x\n" * (1 << 20) + b"\n" * (4 << 20))
    states = {job["job_id"]: job["state"] for job in client.get("/api/v1/jobs").json["jobs"]}
    assert states == {DONE: "SUCCEEDED", FAILED: "FAILED", RUNNING: "RUNNING"}
    assert client.get("/metrics").status_code == 200
    assert (
        "not read to its end, because a line of it is longer than 268435456 bytes" in client.get(f"/jobs/{FAILED}").text
    )
    assert "because more than 10,000 lines of it hold no event" in client.get(f"/jobs/{RUNNING}").text


@pytest.mark.parametrize(("size", "unreadable"), [(16 << 20, 0), ((16 << 20) + 1, 1)])
def test_a_line_of_an_event_has_at_most_16_mib(root: str, running: JobWriter, size: int, unreadable: int) -> None:
    before = len(list(EventTail(running.paths.events, JobFiles(root), max_line=MAX_LINE).poll()))
    line = json.dumps({**NEW, "event": {"type": "Teleported", "to": ""}}).encode()
    filling = b"x" * (size - len(seal(line) + b"\n"))
    running.raw(seal(line.replace(b'"to": "', b'"to": "' + filling)) + b"\n")
    log = EventTail(running.paths.events, JobFiles(root), max_line=MAX_LINE)
    assert len(list(log.poll())) - before == 1 - unreadable
    assert log.damaged == unreadable


def test_a_directory_of_a_job_that_may_not_be_read(client: FlaskClient, done: JobWriter, failed: JobWriter) -> None:
    storage.delete(failed.paths.verdict)
    os.symlink(done.paths.verdict, failed.paths.verdict)
    page = client.get("/").text
    assert "UNREADABLE" in page
    assert "is a link; it is not followed" in page
    assert DONE in page


def test_the_file_system_does_not_answer(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> NoReturn:
        raise ClusterUnreachable("hdfs://nn:8020 does not answer")

    monkeypatch.setattr(storage, "info", unreachable)
    for name in ("list_dir", "has_dir", "open"):
        monkeypatch.setattr(JobFiles, name, unreachable)
    for address in ("/", f"/jobs/{DONE}", "/api/v1/jobs", "/metrics"):
        answer = client.get(address)
        assert answer.status_code == 503
        assert "hdfs://nn:8020 does not answer" in answer.text


def test_a_job_is_opened_without_listing_all_of_them(
    client: FlaskClient, done: JobWriter, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    list_dir = JobFiles.list_dir
    monkeypatch.setattr(JobFiles, "list_dir", lambda self, url: (listed.append(url), list_dir(self, url))[1])
    assert client.get(f"/jobs/{DONE}").status_code == 200
    assert listed
    assert root not in listed


#: Lines that resemble events, so that the pages see values of every kind in every place.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5,
)  # fmt: skip
KINDS = st.sampled_from([each.__name__ for each in ev.AnyEvent.__args__] + ["Future"])
EVENTS = st.builds(
    lambda kind, known, more: {"type": kind, **known, **more}, KINDS,
    st.fixed_dictionaries({}, optional={
        "task": st.just({"role": "ps", "index": 3, "attempt": 1}) | VALUES, "state": st.text(), "metrics": VALUES,
        "time": VALUES, "tail": st.text(), "cause": st.text(), "code": VALUES, "message": st.text(),
    }), st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
)  # fmt: skip
RECORDS = st.fixed_dictionaries({
    "v": st.integers(2, 4), "seq": st.integers(), "am_attempt": st.integers(), "incarnation": st.integers(),
    "time": st.floats() | st.integers(), "event": EVENTS,
})  # fmt: skip


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORDS.map(lambda record: seal(json.dumps(record).encode())) | st.binary(), max_size=6))
def test_no_log_breaks_a_page(running: JobWriter, records: list[bytes]) -> None:
    storage.write_bytes(running.paths.events_segment(1, 1), b"\n".join(records) + b"\n")
    fresh = browser(create_app(running.paths.root))
    for address in ("/", f"/jobs/{RUNNING}", f"/api/v1/jobs/{RUNNING}", f"/api/v1/jobs/{RUNNING}/events"):
        assert fresh.get(address).status_code == 200


def test_no_text_of_one_job_burdens_the_list(client: FlaskClient, done: JobWriter, failed: JobWriter) -> None:
    long = "x" * (1 << 18)
    document = json.loads(storage.read_bytes(done.paths.job))
    users = [*(f"{each}{long[:100]}" for each in range(10_000)), long]
    document["job"] |= {"name": long, "queue": long, "tags": {f"{each}{long[:5000]}": "" for each in range(100)}}
    document["job"]["acls"] = {"view": users, "modify": users}
    texts = dict.fromkeys(("user", "runtime", "afo_version"), long)
    storage.write_bytes(done.paths.job, json.dumps({**document, **texts}).encode())
    verdict = json.loads(storage.read_bytes(done.paths.verdict))
    metrics = {f"{each}{long[:1000]}": 1.0 for each in range(500)}
    words = {"state": long, "cause": long, "metrics": metrics}
    storage.write_bytes(done.paths.verdict, json.dumps({**verdict, **words}).encode())
    for address in ("/", "/fleet", "/api/v1/jobs"):
        assert len(client.get(address).data) < 200_000, address
    [kept] = [job for job in client.get("/api/v1/jobs").json["jobs"] if job["job_id"] == DONE]
    assert {"name": len(kept["name"]), "tags": len(kept["tags"])} == {"name": 200, "tags": 64}, "it was read"
    storage.write_bytes(failed.paths.verdict, json.dumps({**verdict, "cause": long * 20}).encode())
    [kept] = [job for job in client.get("/api/v1/jobs").json["jobs"] if job["job_id"] == FAILED]
    assert kept["cause"] != long * 20


def test_of_an_access_list_the_first_names_count_and_none_is_cut(writer: Callable[..., JobWriter]) -> None:
    document = json.loads(storage.read_bytes(writer(DONE).paths.job))
    names = ["x" * 201, *(f"user-{number}" for number in range(MOST_USERS + 1))]
    document["job"]["acls"] = {"view": names, "modify": ["*"]}
    acls = decode_head(json.dumps(document).encode(), "job.json").job.acls
    assert (acls.view, acls.modify) == (tuple(names[1:-1]), ("*",))

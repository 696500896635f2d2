"""A live job read in bounded shares, so that no other one waits for its whole log."""

import pytest
from flask.testing import FlaskClient

from afo.events import event_log
from afo.events import types as ev
from afo_history_server.store import live_job
from afo_history_server.store.job_index import QUIET_S
from afo_history_server.store.job_store import JobStore
from job_writer import RUNNING, JobWriter


def test_a_look_reads_a_share_and_a_page_all_of_it(
    store: JobStore, running: JobWriter, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock[0] += QUIET_S  # the beginning of a log that is long may be old
    monkeypatch.setattr(live_job, "SHARE", 2000)
    decoded: list[bytes] = []
    decode = event_log.decode_line
    monkeypatch.setattr(event_log, "decode_line", lambda line: (decoded.append(line), decode(line))[1])
    running.log(*(ev.KillRequested(user="ann", reason="x" * 500) for _ in range(20)))
    shares = []
    for _ in range(3):
        store.refresh()
        shares.append(sum(map(len, decoded)))
        decoded.clear()
    assert all(2000 <= share < 2700 for share in shares), shares
    job, newest = store.job(RUNNING)
    assert (job.events_total, len(newest)) == (27, 27)
    store.refresh()
    before = len(decoded)
    store.refresh()
    assert len(decoded) == before, "it was read to its end"


def test_the_end_of_a_log_is_not_missed_behind_a_verdict(
    store: JobStore, running: JobWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_job, "SHARE", 100)
    running.end("SUCCEEDED", "succeeded")
    assert store.job(RUNNING)[0].events_total == 9


def test_a_long_line_that_names_no_splits_is_left_out(client: FlaskClient, running: JobWriter) -> None:
    size = live_job.MAX_OTHER
    start = ev.JobStarted(job_id=RUNNING, name="still at it", user="u", queue="q", runtime="local", afo_version="0",
                          submitted=1.0, train_files=("x" * size,), eval_files=(), epochs=1)  # fmt: skip
    running.log(start, ev.KillRequested(user="ann", reason="x" * size), ev.KillRequested(user="ann", reason="short"))
    assert "1 lines of the event log are damaged or too long" in client.get(f"/jobs/{RUNNING}").text
    shown = client.get(f"/api/v1/jobs/{RUNNING}/events").json
    assert [event["event"].get("reason", "") for event in shown["events"]][:2] == ["short", ""]
    assert (shown["total"], shown["events"][1]["event"]["type"]) == (9, "JobStarted")
    assert shown["events"][1]["event"]["left_out"].endswith(" bytes")

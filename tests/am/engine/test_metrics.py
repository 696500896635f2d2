"""What the Application Master tells Prometheus."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from afo.protocol.input_wait import InputWait
from afo.protocol.train_task import Progress
from afo.rpc.messages import StatusReply, TaskStatus, Usage
from afo_am.engine.metrics import JobMetrics, serve_metrics
from afo_am.engine.metrics_server import MOST
from job_writer import task_id

STATUS = StatusReply(
    job_id="local_1_0001", name="n", state="TRAINING", generation=2, message="", step=40, samples=4000,
    samples_per_s=12.5, input_wait=0.25, progress=0.375, loss=None, splits_done=3, splits_total=8,
    metrics={"auc": 0.75}, started=1.0, restarts=1,
    tasks=(
        TaskStatus(task=task_id("worker"), state="registered", usage=Usage(rss=7, cpu_s=1.5, written_bytes=9),
                   progress=Progress(phase="training", samples=4000, input_wait=InputWait(reading=0.5))),
        TaskStatus(task=task_id("worker", 1), state="requested"),
        TaskStatus(task=task_id("ps"), state="registered"),
    ),
)  # fmt: skip


def values(text: str) -> dict[tuple[str, ...], float]:
    """Name and labels → number."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_names_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "am.md").read_text()
    reply = structs.replace(STATUS, loss=0.5, seconds_left=9.0)
    names = {sample.name for family in JobMetrics(lambda: reply).collect() for sample in family.samples}
    assert len(names) > 15
    assert not {name for name in names if f"`{name}" not in page}


def test_a_job_is_told_as_it_is_now() -> None:
    replies = [STATUS]
    with serve_metrics(lambda: replies[-1], "127.0.0.1") as address:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            found = values(answer.read().decode())
        assert found["afo_job_step",] == 40
        assert found["afo_job_samples_total",] == 4000
        assert found["afo_job_input_wait_ratio",] == 0.25
        assert found["afo_job_progress_ratio",] == 0.375
        assert found["afo_job_metric", "auc"] == 0.75
        assert found["afo_tasks", "worker", "registered"] == found["afo_tasks", "worker", "requested"] == 1
        assert found["afo_task_memory_bytes", "worker:0"] == 7
        assert found["afo_task_cpu_seconds_total", "worker:0"] == 1.5
        assert found["afo_task_input_wait_seconds_total", "reading", "worker:0"] == 0.5
        assert ("afo_task_samples_total", "worker:1") not in found, "it has no process"
        assert not {("afo_job_loss",), ("afo_job_seconds_left",)} & set(found)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{address}/metrics", timeout=10)


def test_silent_connections_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afo_am.engine.metrics_server.WHOLE_S", 2.0)
    with serve_metrics(lambda: STATUS, "127.0.0.1") as address:
        host, _, port = address.rpartition(":")
        before = threading.active_count()
        strangers = [socket.create_connection((host, int(port))) for _ in range(3 * MOST)]
        try:
            until(lambda: threading.active_count() - before >= MOST // 2)
            assert threading.active_count() - before <= MOST
            until(lambda: all(is_ended(each, drip=b"G") for each in strangers))
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                assert values(answer.read().decode())["afo_job_step",] == 40
        finally:
            for each in strangers:
                each.close()


def test_silent_connections_keep_nobody_out() -> None:
    with serve_metrics(lambda: STATUS, "127.0.0.1") as address:
        host, _, port = address.rpartition(":")
        strangers = [socket.create_connection((host, int(port)), timeout=30) for _ in range(3 * MOST)]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            assert values(answer.read().decode())["afo_job_step",] == 40
        until(lambda: is_ended(strangers[0]))
        for each in strangers:
            each.close()


def test_the_end_waits_for_no_connection() -> None:
    with serve_metrics(lambda: STATUS, "127.0.0.1") as address:
        host, _, port = address.rpartition(":")
        stranger = socket.create_connection((host, int(port)))
        stranger.sendall(b"GET /metrics")
    assert is_ended(stranger)
    stranger.close()


def is_ended(connection: socket.socket, drip: bytes = b"") -> bool:
    """Whether the other side has closed it; sends a little, so that it is never silent."""
    connection.settimeout(0.01)
    try:
        if drip:
            connection.sendall(drip)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""A directory of jobs, and the application over it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from afo.events import types as ev
from afo.rpc.messages import Usage
from afo.site.history import HistorySite
from afo.site.user_state import UserState
from afo_history_server.store.job_files import JobFiles
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.telemetry import Telemetry
from afo_history_server.web.access import Access
from afo_history_server.web.app import close_app, create_app
from job_writer import DONE, FAILED, LAST_WORDS, RUNNING, T0, JobWriter, task_id
from pages import TOKEN, browser


@pytest.fixture
def root(tmp_path: Path) -> str:
    """An empty directory of jobs."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def clock() -> list[float]:
    """The application's clock: the only element."""
    return [T0 + 1000]


@pytest.fixture
def store(root: str, clock: list[float]) -> JobStore:
    """The jobs of `root`."""
    return JobStore(root, Telemetry(), lambda: clock[0])


@pytest.fixture
def client(root: str, clock: list[float]) -> Iterator[FlaskClient]:
    """Requests to the application over `root`, as a browser on this machine makes them."""
    app = create_app(root, lambda: clock[0])
    yield browser(app)
    close_app(app)


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these tests belong to who runs them, whoever submitted the job."""
    monkeypatch.setattr(JobFiles, "check_owner", lambda self, url, user: None)


@pytest.fixture
def serve(root: str, tmp_path: Path, believed: None) -> Iterator[Callable[..., FlaskClient]]:
    """Applications over `root` with other rules."""
    apps: list[Flask] = []

    def make(**site: Any) -> FlaskClient:
        access = Access(HistorySite(**site), "me", TOKEN)
        apps.append(create_app(root, access=access, secrets=UserState(tmp_path / "state")))
        return browser(apps[-1])

    yield make
    for app in apps:
        close_app(app)


@pytest.fixture
def writer(root: str) -> Callable[..., JobWriter]:
    """Makes writers below `root`."""
    return lambda job_id, name="a job", **kw: JobWriter(root, job_id, name, **kw)


@pytest.fixture
def done(writer: Callable[..., JobWriter]) -> JobWriter:
    """A job that went well, after the loss of a PS and of a worker."""
    ps, worker = task_id("ps"), task_id("worker", 1)
    job = writer(DONE, "feeds-ctr").begin().task(ps).task(worker)
    job.log(
        ev.CheckpointBegun(task=worker, generation=1, directory="g1", final=False),
        ev.CheckpointWritten(task=worker, generation=1, step=400, manifest="m-400", positions=(), final=False),
        ev.TaskEnded(task=worker, cause="node_lost", code=None, message="the node went away"),
    ).task(task_id("worker", 1, 1), host="node-2")
    job.log(
        ev.GenerationEnded(generation=1, reason="ps:0 was lost", manifest="m-400"),
        ev.GenerationEnded(generation=2, reason="ps:1 was lost", manifest="m-400", kept=(0, 2)),
        ev.VariablesReady(
            task=task_id("worker"), generation=3, restored="m-400", step=480, kept=(0, 2), lost_samples=12345
        ),
        ev.Sample(step=500, samples=1000, samples_per_s=2000.0, input_wait=0.25, loss=0.5),
        ev.Evaluated(task=task_id("evaluator"), step=789, manifest="m", metrics={"auc": 0.7512}, final=True),
        ev.TaskEnded(task=ps, cause="succeeded", code=0, message="", usage=Usage(peak_rss=512 << 20)),
    )
    job.write_log("worker_1", 0, "stderr", b"0123456789" * 100_000)
    job.write_log("am", 1, "stderr", b"the AM's words\n")
    return job.end("SUCCEEDED", "succeeded", auc=0.7512)


@pytest.fixture
def failed(writer: Callable[..., JobWriter]) -> JobWriter:
    """A job whose worker raised."""
    worker = task_id("worker")
    job = writer(FAILED, "ctr <script>alert(1)</script>", begun=T0 + 100, user="bob").begin().task(worker)
    words = {"cause": "user_exception", "code": 1, "message": "ValueError: no feature", "tail": LAST_WORDS}
    job.log(ev.ProcessEnded(task=worker, number=1, **words), ev.ProcessEnded(task=worker, number=2, **words))
    return job.end("FAILED", "user_exception", "worker:0 raised an exception", first=worker, leaves=worker)


@pytest.fixture
def running(writer: Callable[..., JobWriter]) -> JobWriter:
    """A job in the middle of its work."""
    job = writer(RUNNING, "still at it", begun=T0 + 900).begin().task(task_id("worker"))
    return job.log(ev.Sample(step=10, samples=20, samples_per_s=30.0, input_wait=0.63, loss=0.69))

"""A job's directory as an earlier commit left it is read as on the day it was written.

`golden/job-of-f35d035.tar.xz` is a local job of that commit: 2 parameter servers, of which one was killed, hash tables
with a filter, deltas between checkpoints. Left out are its logs, its SavedModel and the checkpoints that were deleted.
"""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from afo_client.cli.main import run
from afo_history_server.store.job_files import JobFiles
from afo_history_server.web.app import close_app, create_app

JOB = "local_1795867414742_5518"
#: What the evaluator said of the checkpoint that was exported, by `verdict.json`.
METRICS = {"auc": 0.6351102941176471, "log_loss": 0.6124451498917242, "calibration": 1.069775213021785, "samples": 300}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(Path(__file__).parent / "golden" / "job-of-f35d035.tar.xz") as archive:
        archive.extractall(tmp_path / "jobs", filter="data")
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "jobs"


@pytest.fixture
def afo(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def say(*words: str) -> str:
        assert run(list(words)) == 0
        captured = capsys.readouterr()
        assert "damaged" not in captured.err
        return captured.out

    return say


def test_status_and_events_are_those_of_then(afo: Callable[..., str]) -> None:
    status = json.loads(afo("status", JOB, "--json"))
    assert (status["state"], status["cause"], status["step"], status["samples"]) == (
        "SUCCEEDED",
        "succeeded",
        3000,
        48_000,
    )
    assert status["metrics"] == METRICS
    events = [json.loads(line) for line in afo("events", JOB, "--json").splitlines()]
    kinds = {event["event"]["type"] for event in events}
    assert kinds >= {"AmStarted", "SplitDone", "CheckpointWritten", "ProcessEnded", "GenerationEnded", "JobFinished"}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_the_lost_server_is_explained_as_then(afo: Callable[..., str]) -> None:
    found = json.loads(afo("explain", JOB, "--json"))
    assert [(end["task"], end["cause"]) for end in found["ends"]] == [("ps:1", "killed_by_signal")]
    [outage] = found["restarts"]
    assert outage["away_seconds"] == pytest.approx(7.67, abs=0.01)


def test_checkpoints_and_lineage_are_read(afo: Callable[..., str], root: Path) -> None:
    found = json.loads(afo("checkpoint", "ls", JOB, "--json"))["checkpoints"]
    assert [(each["step"], each["final"], each["problem"]) for each in found] == [
        (151, False, ""), (387, False, ""), (628, False, ""), (3000, True, ""),
    ]  # fmt: skip
    assert [each["seconds"] for each in found] == [None] * 4, "which nobody measured then"
    assert "1,200 records of epoch 40" in afo("lineage", str(root / JOB / "checkpoints"))


def test_its_page_shows_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobFiles, "check_owner", lambda self, url, user: None)
    app = create_app(str(root), lambda: 1_795_867_500.0)
    try:
        client = app.test_client()
        pages = {
            path: client.get(f"/jobs/{JOB}{path}", base_url="http://127.0.0.1") for path in ("", "/data", "/events")
        }
    finally:
        close_app(app)
    assert {path: answer.status_code for path, answer in pages.items()} == dict.fromkeys(pages, 200)
    assert all(
        part in pages[""].text for part in ("SUCCEEDED", "killed_by_signal", "manifest-g000002-s000000003000-final")
    )
    assert "damaged" not in pages[""].text


@pytest.mark.tensorflow
def test_a_checkpoint_with_deltas_scores_as_it_did(afo: Callable[..., str], root: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    afo("data", "synth", str(tmp_path / "data"), "--train", "1200", "--eval", "300", "--eval-files", "1")
    manifest = root / JOB / "checkpoints" / "manifest-g000001-s000000000628.json"
    files = f"{tmp_path}/data/eval/*.tfrecord"
    measured = json.loads(afo("evaluate", os.fspath(manifest), "--data", files, "--json"))["metrics"]
    assert measured == pytest.approx(METRICS, abs=1e-6)

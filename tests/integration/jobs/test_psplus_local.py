"""`engine: psplus` on the `local` runtime: a parameter server is lost, strangers come to its port."""

from pathlib import Path

import psutil
import pytest
import yaml

from afo.events import types as ev
from click_records import SCHEMA, expected_acks, write_files
from live_job import LiveJob, acknowledged, afo
from processor_build import require_parameter_server
from strangers import assert_strangers_get_nothing

pytestmark = pytest.mark.tensorflow

FILES, RECORDS, EPOCHS = 6, 1500, 4
TRAINERS = [("worker", 0), ("worker", 1), ("evaluator", 0)]


def submit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LiveJob:
    monkeypatch.setenv("AFO_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    write_files(folder / "train", FILES, RECORDS)
    write_files(folder / "eval", 1, 500, first_id=10**6)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    memory = {"memory": "1 GiB"}
    job = {
        "name": "psplus",
        "engine": "psplus",
        "roles": {"ps": {"instances": 2, **memory}, "worker": {"instances": 2, **memory}, "evaluator": {}},
        "data": {
            "schema": "schema.yaml", "train": ["train/*"], "eval": ["eval/*"], "sample_id": "sample_id",
            "batch_size": 16, "epochs": EPOCHS,
        },
        "model": {"hidden_units": [16], "embedding": {"dim": 4}},
        "checkpoint": {"every": "1s"},
        "export": {"dir": str(folder / "model")},
    }  # fmt: skip
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")


def ports_of(process: psutil.Process) -> list[int]:
    listening = [each for each in process.net_connections(kind="inet") if each.status == psutil.CONN_LISTEN]
    assert {each.laddr.ip for each in listening} <= {"127.0.0.1"}
    return [each.laddr.port for each in listening]


def test_workers_keep_their_processes_when_a_server_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_parameter_server()
    job = submit(tmp_path, monkeypatch)
    job.wait(lambda: len(job.events(ev.CheckpointWritten)) >= 2, "two checkpoints")
    processes = [job.trainer(*each) for each in TRAINERS]
    assert [ports_of(each) for each in processes] == [[], [], []], "nobody asks a worker"
    (port,) = ports_of(job.trainer("ps", 0))
    assert_strangers_get_nothing("127.0.0.1", port)
    job.kill(job.trainer("ps", 1))
    job.wait(lambda: len(job.events(ev.GenerationStarted)) == 2, "a second generation")
    trained = job.splits_done()
    job.wait(lambda: job.splits_done() > trained, "training goes on")
    assert [job.trainer(*each) for each in TRAINERS] == processes
    verdict = job.verdict()
    assert (verdict.state, verdict.restarts) == ("SUCCEEDED", 1), job.story()
    (lost,) = job.events(ev.ProcessEnded)
    assert (str(lost.task), lost.cause) == ("ps:1", "killed_by_signal")
    expected = expected_acks(FILES, RECORDS)
    assert acknowledged(job) == {(row, epoch): expected[row] for row in range(FILES) for epoch in range(EPOCHS)}
    assert (tmp_path / "model" / "saved_model.pb").exists()
    assert "killed_by_signal" in afo("explain", job.id).stdout
    job.wait_for_no_process()

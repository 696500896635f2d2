"""Tasks that stand still for good: real jobs on the `local` runtime."""

from pathlib import Path

import pytest
import yaml

from afo.events import types as ev
from click_records import SCHEMA, write_files
from live_job import LiveJob, afo

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]


#: A model whose first process of worker:1 stands still in a step once the file is there.
HANGING = """
import os, time, numpy, tensorflow as tf

def step(age):
    first = [os.environ.get(f"AFO_{name}") for name in ("ROLE", "INDEX", "ATTEMPT")] == ["worker", "1", "0"]
    while first and os.path.exists(HANG):
        time.sleep(0.1)
    return age

class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([[0.1]])

    def __call__(self, features):
        age = tf.numpy_function(step, [features["age"]], tf.float32)
        return tf.sigmoid(tf.reshape(age, [-1, 1]) / 100.0 @ self.weight)

def build():
    return Model()
"""


#: A model whose export takes half a minute, in which it waits or works.
LONG_EXPORT = """
import time, traceback, tensorflow as tf

class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([[0.1]])

    def __call__(self, features):
        if any(frame.filename.endswith("train/exports/export.py") for frame in traceback.extract_stack()):
            end = time.monotonic() + 30
            while time.monotonic() < end:
                WAIT
        return tf.sigmoid(tf.reshape(features["age"], [-1, 1]) / 100.0 @ self.weight)

def build():
    return Model()
"""


def submit(folder: Path, monkeypatch: pytest.MonkeyPatch, stall: str, model: str = "", epochs: int = 1000) -> LiveJob:
    """A job with one parameter server and two workers, which has much to do."""
    monkeypatch.setenv("AFO_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(folder / "jobs"))
    write_files(folder / "train", 4, 2000)
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "standstill",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"instances": 2, "memory": "1 GiB"}},
        "data": {"schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 16,
                 "epochs": epochs},
        "model": {"hidden_units": [16], "embedding": {"dim": 4}},
        "timeouts": {"hang": "4s", "stall": stall},
    }  # fmt: skip
    if model:
        (folder / "model.py").write_text(model)
        job["model"] = {"entry": "model.py:build"}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return LiveJob.submit(folder / "job.yaml", str(folder / "jobs"), "--runtime", "local")


def train(job: LiveJob, after: int) -> None:
    """Until both workers are done with a file after that many were done."""
    seen = lambda: {event.task.index for event in job.events(ev.SplitDone)[after:]}  # noqa: E731
    job.wait(lambda: seen() == {0, 1}, "both train")


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced_and_a_job_in_which_all_hang_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = tmp_path / "hang"
    job = submit(tmp_path, monkeypatch, "40s", HANGING.replace("HANG)", f"{str(hang)!r})"))
    train(job, 0)
    hang.touch()
    job.wait(lambda: bool(job.events(ev.TaskEnded)), "it is missed")
    (hung,) = job.events(ev.TaskEnded)
    assert (str(hung.task), hung.cause) == ("worker:1", "hung"), job.story()
    assert "while others trained" in hung.message
    train(job, job.splits_done())
    job.trainer("worker", 1).suspend()
    job.wait(lambda: len(job.events(ev.TaskEnded)) == 2, "it is missed")
    stopped = job.events(ev.TaskEnded)[1]
    assert (str(stopped.task), stopped.cause) == ("worker:1", "unresponsive"), job.story()
    assert stopped.message.endswith("while others trained; its process stands still (stopped by a signal, state T)")
    train(job, job.splits_done())
    for index in (0, 1):
        job.trainer("worker", index).suspend()
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == ("FAILED", "stalled"), job.story()
    assert "no task made progress for 40s (`timeouts.stall`)" in verdict.diagnostics
    job.wait_for_no_process()


@pytest.mark.slow
def test_a_parameter_server_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(tmp_path, monkeypatch, "10m")
    train(job, 0)
    server = job.trainer("ps", 0)
    server.suspend()
    job.wait(lambda: bool(job.events(ev.TaskEnded)), "it is missed")
    (lost,) = [end for end in job.events(ev.TaskEnded) if end.task.role == "ps"]
    assert (str(lost.task), lost.cause) == ("ps:0", "unresponsive"), job.story()
    assert "(stopped by a signal, state T), and all workers wait" in lost.message
    train(job, job.splits_done())
    assert not server.is_running()
    assert afo("kill", job.id).returncode == 0
    assert job.verdict().state == "KILLED"
    job.wait_for_no_process()


@pytest.mark.slow
@pytest.mark.parametrize(("wait", "state"), [("pass", "SUCCEEDED"), ("time.sleep(0.1)", "FAILED")])
def test_an_export_that_works_takes_as_long_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: str, state: str
) -> None:
    job = submit(tmp_path, monkeypatch, "15s", LONG_EXPORT.replace("WAIT", wait), epochs=1)
    verdict = job.verdict()
    assert (verdict.state, verdict.cause) == (state, "succeeded" if state == "SUCCEEDED" else "stalled"), job.story()
    told = {str(event.task) for event in job.events(ev.TaskStalled)}
    assert ("worker:0" in told, "ps:0" in told) == (state == "FAILED", state == "FAILED")
    job.wait_for_no_process()

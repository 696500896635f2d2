"""A runtime that only pretends to start jobs, for the verbs around it."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from afo import storage
from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.events import types as ev
from afo.formats.json_file import encode as encode_json
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.storage.backend import FileInfo
from afo_client.cli import submit_and_follow
from afo_client.runtimes.application import Application
from afo_client.submission import flow, start

JOB_FILE = """name: clicks
roles: {ps: {instances: 2, memory: 1 GiB}, worker: {memory: 2 GiB, vcores: 3}, evaluator: {}}
environment: {variables: {MALLOC_ARENA_MAX: "16"}}
data: {schema: schema.yaml, train: ["*.tfrecord"], eval: ["*.tfrecord"]}
export: {dir: "out/{{dt}}"}
"""


def small_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`folder` with job.yaml, which needs the variable `dt`, and what it names; the user's state in it, no cluster."""
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(folder / "state"))
    (folder / "schema.yaml").write_text("label: label\nfeatures: [{name: x, kind: dense}]\n")
    (folder / "job.yaml").write_text(JOB_FILE)
    with RecordWriter(str(folder / "a.tfrecord")) as writer:
        writer.write(encode({"x": [0.5], "label": [1]}))
    return folder


def made_by_another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """What is told of `folder`, from now on."""
    info = storage.info

    def of_another(url: str) -> FileInfo:
        found = info(url)
        return replace(found, owner="mallory") if url == str(folder) else found

    monkeypatch.setattr(storage, "info", of_another)


class FakeRuntime:
    """Starts nothing: writes the verdict that a job of its state would leave."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.submitted: list[tuple[AmConfig, str, str]] = []

    @property
    def job_id(self) -> str:
        """Of the job started last."""
        return f"local_{len(self.submitted)}_0001"

    def submit(self, config: AmConfig, schema: str, secret: str, tell: object = None) -> str:
        """Instead of the real one."""
        self.submitted.append((config, schema, secret))
        paths = JobPaths(config.jobs_root, self.job_id)
        Path(paths.events).mkdir(parents=True)
        Path(paths.job).write_bytes(encode_json(config))
        if self.state != "RUNNING":
            self.end(self.state)
        return self.job_id

    def end(self, state: str) -> None:
        """The job started last has ended."""
        self.state = state
        paths = JobPaths(self.submitted[-1][0].jobs_root, self.job_id)
        Path(paths.verdict).write_bytes(msgspec.json.encode(self.verdict()))

    def find_marked(self, mark: str) -> str | None:
        """The runtime knows nothing of jobs beyond their directories."""
        return None

    def verdict(self) -> ev.JobFinished:
        """What the job leaves."""
        return ev.JobFinished(
            state=self.state, cause="succeeded", diagnostics="", metrics={"auc": 0.9}, samples=8, step=4, seconds=2.0,
            core_hours=1.0, memory_gb_hours=1.0, restarts=0,
        )  # fmt: skip

    def application(self, job_id: str) -> Application:
        """Running, as far as the runtime knows."""
        return Application(job_id=job_id, state="RUNNING")


def use_fake_runtime(monkeypatch: pytest.MonkeyPatch, state: str) -> FakeRuntime:
    """Jobs started from here on end in `state` at once, or never if it is RUNNING."""
    fake = FakeRuntime(state)
    for module in (flow, start, submit_and_follow):
        monkeypatch.setattr(module, "runtime_for", lambda name, config: fake)
    return fake

"""Writes the directory of a job as the client, the AM and the Children do."""

from typing import Literal

import msgspec

from afo import storage
from afo.events import event_log
from afo.events import types as ev
from afo.formats import json_file
from afo.job import Data, Job, RoleSpec
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.rpc.messages import TaskId

T0 = 1_763_000_000.0
DONE, FAILED, RUNNING = "local_1763000000000_0001", "application_1763000000001_0002", "local_1763000900000_0003"
LAST_WORDS = 'Traceback (most recent call last):\n  File "model.py", line 7\nValueError: no feature <b>age</b>'


class JobWriter:
    """Writes one job; `at` moves on by a second with each event."""

    def __init__(
        self, root: str, job_id: str, name: str, begun: float = T0, user: str = "alice", queue: str = "default",
        tags: dict[str, str] | None = None, files: tuple[str, ...] = ("a",), epochs: int = 1,
        runtime: Literal["local", "yarn"] = "local",
    ) -> None:  # fmt: skip
        self.paths, self.name, self.user, self.at, self.seq = JobPaths(root, job_id), name, user, begun, 0
        self.queue, self.files, self.epochs, self.runtime = queue, files, epochs, runtime
        job = Job(
            name=name, queue=queue, tags=tags or {}, roles={"ps": RoleSpec(), "worker": RoleSpec(instances=2)},
            data=Data(schema="schema.yaml", train=("a",)),
        )  # fmt: skip
        config = AmConfig(
            job=job, user=user, afo_version="0.1", runtime=runtime, jobs_root=root, job_id=job_id, train_files=files,
            secret_file="secret", schema_file="schema.yaml", submitted=begun - 5,
        )  # fmt: skip
        storage.write_bytes(self.paths.job, json_file.encode(config))

    def begin(self, *, old: bool = False) -> "JobWriter":
        """The job runs. `old`: its first event lists the splits, as until version 4 of the event log."""
        started = ev.JobStarted(
            job_id=self.paths.job_id, name=self.name, user=self.user, queue=self.queue, runtime=self.runtime,
            afo_version="0.1", submitted=self.at - 5, eval_files=(), epochs=self.epochs,
            train_files=self.files if old else None,
        )  # fmt: skip
        self.log(started)
        if not old:
            self.at -= 1  # written with it
            splits = tuple(InputFile(url, 1, 1.0) for url in self.files)
            self.log(ev.SplitsAdded(first=0, splits=splits, closed=True))
        return self.log(ev.AmStarted(am_attempt=1, incarnation=1, address="h:1", host="h", pid=1))

    def log(self, *events: ev.AnyEvent) -> "JobWriter":
        """Append events."""
        lines = []
        for event in events:
            self.at, self.seq = self.at + 1, self.seq + 1
            record = event_log.Record(seq=self.seq, am_attempt=1, incarnation=1, time=self.at, event=event)
            lines.append(event_log.encode_line(record))
        return self.raw(b"".join(lines))

    def raw(self, line: bytes) -> "JobWriter":
        """Append bytes to the log."""
        storage.append(self.paths.events_segment(1, 1), line)
        return self

    def task(self, task: TaskId, host: str = "node-1") -> "JobWriter":
        """A container is asked for and registers."""
        container = f"c_{task.role}_{task.index}_{task.attempt}"
        return self.log(
            ev.ContainerRequested(task=task, memory=2048, vcores=1, reason="node_lost" if task.attempt else ""),
            ev.ContainerRunning(task=task, handle="r", container=container, host=host),
            ev.TaskRegistered(task=task, container=container, host=host, pid=7, log_url="", environment={}),
        )

    def end(
        self, state: str, cause: str, diagnostics: str = "", auc: float | None = None, first: TaskId | None = None,
        verdict: bool = True, leaves: TaskId | None = None,
    ) -> "JobWriter":  # fmt: skip
        """The job is over; `leaves` is a task whose container ends with it."""
        finished = ev.JobFinished(
            state=state, cause=cause, diagnostics=diagnostics, metrics={} if auc is None else {"auc": auc},
            samples=123456, step=789, seconds=754.0, core_hours=1.25, memory_gb_hours=2.5, restarts=1,
        )  # fmt: skip
        self.log(ev.JobEnding(state=state, cause=cause, diagnostics=diagnostics, first_task=first))
        if leaves:
            self.log(ev.TaskEnded(task=leaves, cause="ended_with_job", code=0, message="It was ended with its job."))
        self.log(finished)
        if verdict:
            storage.write_bytes(self.paths.verdict, msgspec.json.encode(finished))
        return self

    def write_log(self, task: str, attempt: int, stream: str, data: bytes) -> "JobWriter":
        """A log as uploaded."""
        storage.write_bytes(f"{self.paths.logs}/{task}/{attempt}/{stream}", data)
        return self


def task_id(role: str, index: int = 0, attempt: int = 0) -> TaskId:
    """A task's attempt."""
    return msgspec.convert({"role": role, "index": index, "attempt": attempt}, TaskId)

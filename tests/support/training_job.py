"""A job's processes for real, driven by a master that is a few dictionaries behind the real RPC server."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from afo.data.io.split_files import find_splits
from afo.errors import GenerationOver
from afo.formats import json_file
from afo.job import Job
from afo.process.hosts import host_port
from afo.protocol.train_task import Progress, TrainTask
from afo.rpc import messages as m
from afo.rpc.client import AmAddress, write_address
from afo.rpc.server import RpcServer
from click_records import expected_acks
from fork_server import ForkedProcess, start_function, start_task

DEADLINE_S = 300.0
SECRET = "x" * 64


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls; fails with `what` after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.02)


@dataclass
class MiniMaster:
    """Hands out every split once an epoch, and remembers what was said to it in the present generation."""

    urls: list[str]
    epochs: int
    restore: str = ""
    ready: bool = False
    first_step: int = 0
    #: Parameter servers that are not restored; nobody is given a split meanwhile.
    kept: tuple[int, ...] = ()
    holds_back: bool = False
    generation: int = 1
    #: Addresses of its parameter servers; empty while it is forming.
    ps: tuple[str, ...] = ()
    #: Who asked for them, with the generation that it knew.
    asked: list[m.ServersRequest] = field(default_factory=list)
    acks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    #: Bad records of each acknowledged (split, epoch).
    bad: dict[tuple[int, int], int] = field(default_factory=dict)
    leases: dict[int, tuple[str, int]] = field(default_factory=dict)
    begun: set[tuple[int, int]] = field(default_factory=set)
    checkpoints: list[m.CheckpointReport] = field(default_factory=list)
    versions: list[m.VersionReport] = field(default_factory=list)
    evals: list[m.EvalReport] = field(default_factory=list)
    readies: list[m.ReadyReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def end_generation(self) -> None:
        """Whatever is leased is given back; nobody is served until `ps` is there."""
        with self._lock:
            self.generation, self.ps, self.ready = self.generation + 1, (), False
            self.leases.clear()

    def servers(self, request: m.ServersRequest) -> m.ServersReply:
        self.asked.append(request)
        return m.ServersReply(
            state="run" if self.ps else "wait", generation=self.generation, ps=self.ps, splits_at_start=len(self.urls)
        )

    def _refuse_stale(self, generation: int) -> None:
        if generation != self.generation:
            raise GenerationOver(f"generation {generation} has ended; now is {self.generation}")

    def next_split(self, request: m.SplitRequest) -> m.SplitReply:
        with self._lock:
            self._refuse_stale(request.generation)
            if self.holds_back:
                return m.SplitReply(state="wait")
            if len(self.acks) == len(self.urls) * self.epochs:
                return m.SplitReply(state="end")
            for split, (holder, epoch) in self.leases.items():
                if holder == str(request.task) and split not in request.holding:
                    return m.SplitReply(state="lease", split=split, epoch=epoch, url=self.urls[split], resume=True)
            for epoch in range(self.epochs):
                for split, url in enumerate(self.urls):
                    earlier = all((split, each) in self.acks for each in range(epoch))
                    if (split, epoch) not in self.acks and split not in self.leases and earlier:
                        self.leases[split] = (str(request.task), epoch)
                        resume = (split, epoch) in self.begun
                        self.begun.add((split, epoch))
                        return m.SplitReply(state="lease", split=split, epoch=epoch, url=url, resume=resume)
            return m.SplitReply(state="wait")

    def ack_split(self, ack: m.SplitAck) -> m.Empty:
        with self._lock:
            self._refuse_stale(ack.generation)
            if self.leases.pop(ack.split, None) != (str(ack.task), ack.epoch):
                self.problems.append(f"{ack} of a split that the task does not hold")
            self.acks[ack.split, ack.epoch] = (ack.count, ack.xor)
            self.bad[ack.split, ack.epoch] = ack.bad
            return m.Empty()

    def task_lost(self, task: str) -> int:
        """Free its splits; returns how many it held."""
        with self._lock:
            mine = [split for split, (holder, _) in self.leases.items() if holder == task]
            for split in mine:
                del self.leases[split]
            return len(mine)

    def take_up(self, positions: tuple[tuple[int, int, int, int], ...], full: list[tuple[int, int]]) -> None:
        """Know what a checkpoint's positions hold as complete or begun; `full` is each split's count and xor."""
        for split, epoch, count, xor in positions:
            self.acks.update({(split, earlier): full[split] for earlier in range(epoch)})
            self.begun.add((split, epoch))
            if count == full[split][0]:
                self.acks[split, epoch] = (count, xor)

    def is_ready(self, request: m.ReadyRequest) -> m.ReadyReply:
        self._refuse_stale(request.generation)
        told = self.versions[-1].version if self.versions else 0
        return m.ReadyReply(
            ready=self.ready, restore=self.restore, kept=self.kept, first_step=self.first_step, exported_version=told
        )  # fmt: skip

    def report_ready(self, report: m.ReadyReport) -> m.Empty:
        self._refuse_stale(report.generation)
        self.readies.append(report)
        self.ready = True
        return m.Empty()

    def report_saving(self, report: m.SavingReport) -> m.Empty:
        self._refuse_stale(report.generation)
        return m.Empty()

    def report_checkpoint(self, report: m.CheckpointReport) -> m.CheckpointReply:
        self._refuse_stale(report.generation)
        self.checkpoints.append(report)
        return m.CheckpointReply()

    def report_version(self, report: m.VersionReport) -> m.Empty:
        self.versions.append(report)
        return m.Empty()

    def report_eval(self, report: m.EvalReport) -> m.Empty:
        self.evals.append(report)
        return m.Empty()


class JobRun:
    """The processes of one generation of a job, and the master they talk to."""

    def __init__(
        self, job: Job, schema_file: Path, directory: Path, *, generation: int = 1, restore: str = "",
        host: str = "127.0.0.1",
    ) -> None:  # fmt: skip
        self.job = job
        self.directory = directory
        self.generation = generation
        self.schema_file = schema_file
        self.master = MiniMaster([each.url for each in find_splits(job.data.train)], job.data.epochs, restore)
        self.progress: dict[str, Progress] = {}
        #: Phases in which a worker's process told of fewer samples than before.
        self.fallen: list[str] = []
        self.processes: dict[str, ForkedProcess] = {}
        self._attempts: dict[str, int] = {}
        master = self.master
        self._server = RpcServer(
            {
                "NextSplit": master.next_split,
                "AckSplit": master.ack_split,
                "Ready": master.is_ready,
                "Servers": master.servers,
                "ReportReady": master.report_ready,
                "ReportSaving": master.report_saving,
                "ReportVersion": master.report_version,
                "ReportCheckpoint": master.report_checkpoint,
                "ReportEval": master.report_eval,
            },
            SECRET,
            host,
        )
        self._server.start()
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "secret").write_text(SECRET)
        write_address(str(directory / "address"), AmAddress(self._server.address, 1))
        self.ps = tuple(host_port(host, _free_port()) for _ in range(job.roles["ps"].count))
        master.generation, master.ps = generation, self.ps

    def start_servers(self, *which: int) -> None:
        """Start parameter servers, or all of them, and wait until they serve."""
        names = [f"ps:{index}" for index in which or range(len(self.ps))]
        for name in names:
            self.progress.pop(name, None)
            self.start("ps", int(name.partition(":")[2]))
        wait_until(lambda: all(name in self.progress for name in names), "all parameter servers serve")

    def next_generation(self, lost: tuple[int, ...]) -> None:
        """These parameter servers come back elsewhere, for `master.restore`; the others go on."""
        self.generation += 1
        self.master.end_generation()
        self.ps = tuple(
            f"127.0.0.1:{_free_port()}" if index in lost else address for index, address in enumerate(self.ps)
        )
        self.master.kept = tuple(index for index in range(len(self.ps)) if index not in lost)
        self.start_servers(*lost)
        self.master.ps = self.ps

    def roll_back(self, to: m.CheckpointReport, full: list[tuple[int, int]]) -> None:
        """What was acknowledged after this checkpoint counts no more; `full` is each split's count and xor."""
        self.master.acks.clear()
        self.master.take_up(to.positions, full)

    def server_values(self, name: str) -> dict[str, Any]:
        """What the parameter servers hold now, by variable, asked with the addresses that the task `name` has."""
        role, index = name.split(":")
        work = self.directory / f"{role}-{index}-{self._attempts[name]}-g{self.generation}"
        target = self.directory / "values.npz"
        process = start_function("server_values", "write", str(work / "task.json"), str(target))
        assert process.wait(DEADLINE_S) == 0
        with np.load(target) as values:
            return dict(values)

    def start(self, role: str, index: int) -> str:
        """Start a task's process; returns its name, `role:index`."""
        name = f"{role}:{index}"
        attempt = self._attempts[name] = self._attempts.get(name, -1) + 1
        work = self.directory / f"{role}-{index}-{attempt}-g{self.generation}"
        work.mkdir()
        reading, writing = os.pipe()
        task = TrainTask(
            job_id="local_0_0", role=role, index=index, attempt=attempt, generation=self.generation,
            is_chief=(role, index) == self.job.chief, ps=self.ps,
            num_workers=self.job.roles["worker"].count, splits_at_start=len(self.master.urls),
            files_url="", job=self.job,
            schema_file=str(self.schema_file), am_address_url=str(self.directory / "address"),
            secret_file=str(self.directory / "secret"), work_dir=str(work),
            checkpoint_url=str(self.directory / "checkpoints"), export_url=str(self.directory / "export"),
            summary_url=str(self.directory / "summaries"), progress_fd=writing,
        )  # fmt: skip
        json_file.write_private(work / "task.json", task)
        self.processes[name] = start_task(work / "task.json", writing, work / "stderr")
        os.close(writing)
        threading.Thread(target=self._follow, args=(name, reading), daemon=True).start()
        return name

    def _follow(self, name: str, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as lines:
            before = 0
            for line in lines:
                told = self.progress[name] = msgspec.json.decode(line, type=Progress)
                if name.startswith("worker") and told.samples < before:
                    self.fallen.append(told.phase)
                before = told.samples

    def wait(self, name: str) -> int:
        """Wait for a process's end; returns its exit code."""
        return self.processes[name].wait(DEADLINE_S)

    def stderr(self, name: str) -> str:
        """All that the process's present attempt wrote."""
        role, index = name.split(":")
        path = self.directory / f"{role}-{index}-{self._attempts[name]}-g{self.generation}" / "stderr"
        return path.read_text(errors="replace")

    def finish(self, *names: str) -> None:
        """Wait for processes that must end well."""
        for name in names:
            assert self.wait(name) == 0, self.stderr(name)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait(DEADLINE_S)

    def close(self) -> None:
        """End all that still runs."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._server.stop(0)


def assert_every_sample_was_applied_once_an_epoch(run: JobRun, files: int, records: int) -> None:
    """By what was acknowledged, of so many files of `click_records.write_files`."""
    expected = expected_acks(files, records)
    assert run.master.acks == {
        (row, epoch): expected[row] for row in range(files) for epoch in range(run.job.data.epochs)
    }
    assert run.master.problems == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

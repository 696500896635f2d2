"""A job submitted by the real `afo` command, watched by its event log, with faults by process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pytest

from afo import storage
from afo.errors import ClusterUnreachable, NotFound
from afo.events import event_log
from afo.events import types as ev
from afo.job.paths import JobPaths
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.rpc.messages import StatusReply
from afo.site.config import load_config
from afo.site.user_state import UserState
from yarn_view import YarnView

AFO = [sys.executable, "-m", "afo_client"]
_Event = TypeVar("_Event", bound=ev.Event)


def afo(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run the command; never fails by itself."""
    return subprocess.run(
        [*AFO, *arguments], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
    )


class LiveJob:
    """A running job; all its processes are on this machine, whatever the runtime."""

    def __init__(self, job_id: str, root: str) -> None:
        self.id = job_id
        self.paths = JobPaths(root, job_id)

    @classmethod
    def submit(cls, job_file: Path | str, root: str, *options: str) -> LiveJob:
        """`afo submit --detach`; the test fails with the command's own words if it is refused."""
        done = afo("submit", str(job_file), "--detach", *options)
        if done.returncode != 0:
            pytest.fail(f"afo submit ended with {done.returncode}: {done.stderr}")
        return cls(done.stdout.strip(), root)

    def records(self) -> list[event_log.Record]:
        """The event log so far."""
        try:
            return list(event_log.read_log(self.paths.events))
        except NotFound:
            return []

    def events(self, kind: type[_Event]) -> list[_Event]:
        """All events of a kind so far."""
        return [record.event for record in self.records() if isinstance(record.event, kind)]

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
        """Poll; the test fails if the job ends before, or in time nothing happens."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{self.id}: not within {seconds} s: {what}\n{self.story()}")
            if storage.exists(self.paths.verdict):
                if condition():
                    return
                pytest.fail(f"{self.id} ended before {what}\n{self.story()}")
            time.sleep(0.3)

    def wait_for_no_process(self, seconds: float = 30) -> None:
        """The test fails if a process of the job lives on after its end."""
        deadline = time.monotonic() + seconds
        while left := self.processes():
            if time.monotonic() > deadline:
                pytest.fail(f"{self.id}: still alive: {[(process.pid, process.cmdline()) for process in left]}")
            time.sleep(0.3)

    def wait_for_application_end(self, seconds: float = 120) -> None:
        """The test fails if YARN still runs application attempts of the job."""
        deadline, view = time.monotonic() + seconds, YarnView(self.id)
        while (state := view.state()) not in ("FINISHED", "FAILED", "KILLED"):
            if time.monotonic() > deadline:
                pytest.fail(f"{self.id}: YARN says {state}")
            time.sleep(0.5)

    def status(self) -> StatusReply | None:
        """What the AM answers to its submitter; None while nobody answers."""
        secret = UserState(load_config().state_dir).secret(self.id)
        if secret is None:
            return None
        client = AmClient(self.paths.address, secret, patience_s=0.0, call_s=3.0)
        try:
            return Master(client).status()
        except ClusterUnreachable:
            return None
        finally:
            client.close()

    def step(self) -> int:
        """Steps of all workers; 0 while nobody answers."""
        status = self.status()
        return status.step if status else 0

    def state(self) -> str:
        """The AM's word for where the job stands; '' while nobody answers."""
        status = self.status()
        return status.state if status else ""

    def splits_done(self) -> int:
        """Acknowledged files so far, those of ended generations included."""
        return len(self.events(ev.SplitDone))

    def verdict(self, seconds: float = 400) -> ev.JobFinished:
        """The end."""
        deadline = time.monotonic() + seconds
        while not storage.exists(self.paths.verdict):
            if time.monotonic() > deadline:
                pytest.fail(f"{self.id} did not end within {seconds} s\n{self.story()}")
            time.sleep(0.5)
        return msgspec.json.decode(storage.read_bytes(self.paths.verdict), type=ev.JobFinished)

    def story(self) -> str:
        """The last events, for the message of a failing test."""
        return "\n".join(str(record.event)[:300] for record in self.records()[-40:]) or "no event yet"

    # -- processes ---------------------------------------------------------------------------------------------------

    def child(self, role: str, index: int) -> psutil.Process:
        """The Child of the present attempt."""
        registered = [e for e in self.events(ev.TaskRegistered) if (e.task.role, e.task.index) == (role, index)]
        return psutil.Process(registered[-1].pid)

    def trainer(self, role: str, index: int) -> psutil.Process:
        """The TensorFlow process of the present attempt."""
        for process in self.child(role, index).children(recursive=True):
            if "afo.train" in process.cmdline():
                return process
        raise NotFound(f"{role}:{index} runs no TensorFlow process")

    def master(self) -> psutil.Process:
        """The Application Master's Python process."""
        return psutil.Process(self.events(ev.AmStarted)[-1].pid)

    def kill(self, process: psutil.Process) -> None:
        """SIGKILL, and gone when this returns."""
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=20)

    def processes(self) -> list[psutil.Process]:
        """Every process that has this job's id in its environment or arguments."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values(), process.cwd()]
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            if any(self.id in word or self.id.removeprefix("application_") in word for word in words):
                found.append(process)
        return [process for process in found if process.pid not in (os.getpid(), os.getppid())]


def acknowledged(job: LiveJob) -> dict[tuple[int, int], tuple[int, int]]:
    """(row, epoch) → (count, xor) of the surviving history: the last acknowledgement of each counts."""
    return {(done.split, done.epoch): (done.count, done.xor) for done in job.events(ev.SplitDone)}


def submit_and_wait(job_file: Path | str, *options: str, timeout: float = 600) -> dict[str, object]:
    """`afo submit --wait --json`: its one object."""
    done = afo("submit", str(job_file), "--wait", "--json", *options, timeout=timeout)
    try:
        answer: dict[str, object] = json.loads(done.stdout)
    except ValueError:
        pytest.fail(f"afo submit printed no JSON (exit code {done.returncode}): {done.stdout}\n{done.stderr}")
    return answer

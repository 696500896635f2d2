"""TensorFlow alone: its processes, and a plain supervisor that starts again what ended."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import psutil

from afo.failures.classify import last_exception
from side_by_side.contender import CHECKPOINT_S, TASKS, Task
from side_by_side.outcome import Seen

#: A task is started again this often, this long after its end, as `restartPolicy: OnFailure` or systemd would.
MAX_STARTS = 5
PAUSE_S = 1.0

#: The folder of stock_coordinator.py and stock_monitored.py.
_PROGRAMS = Path(__file__).parent


class Stock:
    """All tasks with one cluster specification, each started again with its own role and address when it ends."""

    def __init__(self, program: Literal["coordinator", "monitored"], folder: Path) -> None:
        """Starts all tasks. `folder` holds what they write."""
        self._program, self._folder = program, folder
        self._model_dir = folder / "model"
        self._model_dir.mkdir()
        self._cluster: dict[str, list[str]] = {}
        for (role, _), port in zip(TASKS, free_ports(len(TASKS)), strict=True):
            self._cluster.setdefault(role, []).append(f"127.0.0.1:{port}")
        self._processes: dict[Task, subprocess.Popen[bytes]] = {}
        self._starts: dict[Task, int] = {}
        self._due: dict[Task, float] = {}
        self._error = ""
        for task in TASKS:
            self._start(task)

    def _start(self, task: Task) -> None:
        role, index = task
        self._starts[task] = self._starts.get(task, 0) + 1
        config = {"cluster": self._cluster, "task": {"type": role, "index": index}}
        # As TensorFlow RFC 355 and the tutorial "Parameter server training with ParameterServerStrategy" recommend.
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "GRPC_FAIL_FAST": "use_caller"}
        command = [
            sys.executable, str(_PROGRAMS / f"stock_{self._program}.py"), "--model-dir", str(self._model_dir),
            "--progress", str(self._folder / f"{role}-{index}.progress"), "--checkpoint-s", str(CHECKPOINT_S),
        ]  # fmt: skip
        with self._errors(task).open("wb") as errors:
            self._processes[task] = subprocess.Popen(
                command, env=environment, cwd=self._folder, stdout=errors, stderr=errors, start_new_session=True
            )

    def _errors(self, task: Task) -> Path:
        return self._folder / f"{task[0]}-{task[1]}.{self._starts[task]}.stderr"

    def tend(self) -> None:
        """Starts again what ended PAUSE_S ago."""
        for task, process in self._processes.items():
            if process.poll() is None or self._starts[task] > MAX_STARTS:
                continue
            if task not in self._due:
                self._due[task] = time.monotonic() + PAUSE_S
                if process.returncode != -signal.SIGKILL:
                    self._error = f"{task[0]}:{task[1]}: {self._last_words(task, process.returncode)}"
            elif time.monotonic() > self._due[task]:
                del self._due[task]
                self._start(task)

    def _last_words(self, task: Task, code: int) -> str:
        tail = self._errors(task).read_text(errors="replace")[-20000:]
        return (last_exception(tail) or f"exit code {code}")[:200]

    def seen(self) -> list[Seen]:
        """The lines that the tasks wrote, by time."""
        found = []
        for file in self._folder.glob("*.progress"):
            for line in file.read_text().splitlines():
                with contextlib.suppress(ValueError):  # the last line may be half written
                    entry = json.loads(line)
                    found.append(Seen(entry["time"], entry["step"], frozenset(entry["by"])))
        return sorted(found, key=lambda each: each.time)

    def saved(self) -> bool:
        """A checkpoint of a step after the first."""
        file = self._model_dir / "checkpoint"
        return file.exists() and 'ckpt-0"' not in file.read_text()

    def trainers(self) -> set[int]:
        """Of a coordinator the workers, else the chief too."""
        roles = ("worker",) if self._program == "coordinator" else ("worker", "chief")
        return {process.pid for (role, _), process in self._processes.items() if role in roles}

    def process(self, task: Task) -> psutil.Process:
        """The task's process."""
        return psutil.Process(self._processes[task].pid)

    def kill(self, task: Task, *, moved: bool) -> None:
        """SIGKILL. A task that moves is given another port of its own; the others know the one that they began with."""
        if moved:
            (port,) = free_ports(1)
            role, index = task
            addresses = [*self._cluster[role]]
            addresses[index] = f"127.0.0.1:{port}"
            self._cluster = {**self._cluster, role: addresses}
        self._processes[task].kill()
        self._processes[task].wait()

    def story(self) -> tuple[dict[str, int], str]:
        """Starts after the first, and the last error of a task that ended by itself."""
        return {f"{role}:{index}": n - 1 for (role, index), n in self._starts.items() if n > 1}, self._error

    def gave_up(self) -> bool:
        """A task has ended more than MAX_STARTS times."""
        return any(
            process.poll() is not None and self._starts[task] > MAX_STARTS for task, process in self._processes.items()
        )

    def close(self) -> None:
        """SIGKILL to all."""
        for process in self._processes.values():
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]

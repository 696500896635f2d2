"""Processes of `afo.train` that start from one process with TensorFlow already imported.

An import of TensorFlow takes a core four seconds. multiprocessing's fork server pays them once for a session of tests;
what the tests are about, processes of their own that really die, stays. Tests about the start itself run
`python -m afo.train` through the Child.
"""

import importlib
import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

_CONTEXT = get_context("forkserver")
_IMPORTED = [
    "afo.train.evaluator",
    "afo.train.profiler",
    "afo.train.parameter_server",
    "afo.train.setup",
    "afo.train.worker",
]
#: What TensorFlow reads when it is imported or first used, as the Child sets it.
_ENVIRONMENT = {
    "GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "grpc_proxy": "", "TF_CPP_MIN_LOG_LEVEL": "1",
    "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
}  # fmt: skip


class ForkedProcess:
    """A process with the part of `subprocess.Popen` that tests use."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs; negative is a signal's number."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutError."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens to a process that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start_task(task_file: Path, progress_fd: int, stderr: Path) -> ForkedProcess:
    """`python -m afo.train` of a task whose file names `progress_fd` as the descriptor of its progress."""
    with Connection(os.dup(progress_fd), readable=False) as progress:  # what multiprocessing hands on to a process
        return _start(_train, str(task_file), progress, progress_fd, str(stderr))


def start_function(module: str, name: str, *arguments: str) -> ForkedProcess:
    """A function of one of the tests' modules, which only the process imports; an exception is exit code 1."""
    return _start(_call, module, name, *arguments)


def _start(target: Any, *arguments: Any) -> ForkedProcess:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        _CONTEXT.set_forkserver_preload(_IMPORTED)
        process = _CONTEXT.Process(target=target, args=arguments)
        process.start()
    return ForkedProcess(process)


def _call(module: str, name: str, *arguments: str) -> None:
    getattr(importlib.import_module(module), name)(*arguments)


def _train(task_file: str, progress: Connection, progress_fd: int, stderr: str) -> None:
    os.dup2(progress.fileno(), progress_fd)
    progress.close()
    target = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(target, 2)
    os.chdir(Path(task_file).parent)
    from afo.train.__main__ import main

    code = main([task_file])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""The model server: `afo serve` at fixed ports, started again when it has ended, and what it takes of the machine."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_CGROUP = Path("/sys/fs/cgroup/memory")
_LOOK_S, _SAMPLE_S = 0.2, 5.0
_MIB = 1 << 20
_REFUSED = re.compile(r"a version cannot be loaded;.*? version=(\d+)")


class Sample(NamedTuple):
    """What one process of the server takes at a time."""

    at: float
    pid: int
    mib: float
    descriptors: int
    threads: int


class Server:
    """Serves the versions in `base_path` as the model `ctr`; what it keeps lies in `directory`, its own.

    `is_bounded`: its memory can be, by `group`.
    """

    def __init__(self, base_path: str, directory: Path, *, is_bounded: bool) -> None:
        directory.mkdir(mode=0o700)
        self.log, self._config = directory / "server.log", directory / "serving.yaml"
        self._environment = os.environ | {"AFO_STATE_DIR": str(directory / "state")}
        self.grpc_address, self.rest_address = (f"127.0.0.1:{_free_port()}" for _ in range(2))
        self._config.write_text(
            json.dumps(
                {
                    "models": [{"name": "ctr", "base_path": base_path}],
                    "grpc": {"address": self.grpc_address}, "rest": {"address": self.rest_address},
                    "access_log": str(directory / "access.log"),
                    "cache_directory": str(directory / "cache"),
                }
            )
        )  # fmt: skip
        self.samples: list[Sample] = []
        self.group = _memory_group() if is_bounded else None
        self._over = threading.Event()
        self._sampled_at = 0.0
        self._process = self._start()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    @property
    def pid(self) -> int:
        """Of the process that serves now."""
        return self._process.pid

    def _start(self) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-W", "ignore", "-m", "afo_client", "serve", "--config", str(self._config)]
        with self.log.open("ab") as messages:
            process = subprocess.Popen(
                words, env=self._environment, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages
            )
        if self.group is not None:
            with suppress(OSError):
                (self.group / "cgroup.procs").write_text(str(process.pid))
        return process

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if self._process.poll() is not None:
                self._process = self._start()
            elif time.time() - self._sampled_at >= _SAMPLE_S:
                self._sampled_at = time.time()
                with suppress(psutil.Error):
                    self.samples.append(_sample(psutil.Process(self._process.pid)))

    def refused(self) -> int:
        """Versions that could not be loaded, as its messages have it."""
        return len(set(_REFUSED.findall(self.log.read_text())))

    def stop(self) -> None:
        """End it, and start it no more."""
        self._over.set()
        self._watcher.join()
        self._process.terminate()
        self._process.wait(60)
        if self.group is not None:
            with suppress(OSError):
                self.group.rmdir()


def _sample(process: psutil.Process) -> Sample:
    return Sample(
        time.time(), process.pid, process.memory_info().rss / _MIB, process.num_fds(), process.num_threads()
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _memory_group() -> Path | None:
    """A group of processes whose memory can be bounded; None where this user or kernel has none."""
    group = _CGROUP / f"afo-soak-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    return group

"""Processes that hold preloaded tables and measure named cases when asked, so that rounds of several can take turns.

A process is one side of a benchmark. It prints `{"ready": {...}}` when its tables are loaded, then answers each line
`{"case": ..., "calls": ...}` on its standard input by `{"seconds": [...]}`, the time of every call, on its output.
Only the standard library is needed, for that the interpreters of all peers can import this.
"""

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

READY_S = 900.0
ANSWER_S = 300.0
_CLOSE_S = 20.0
_TAIL = 3000


def resident() -> int:
    """Bytes of this process that are in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def arguments(cases: Sequence[str], keys: int) -> argparse.Namespace:
    """What every side takes: `threads`, `keys`, and `cases`, all of them where none are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keys", type=int, default=keys)
    parser.add_argument("--cases", type=lambda names: names.split(","), default=list(cases))
    parsed = parser.parse_args()
    if unknown := set(parsed.cases) - set(cases):
        parser.error(f"no such cases: {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    return parsed


def timed(calls: int, call: Callable[[int], object]) -> list[float]:
    """Seconds of each of `calls` calls, which get their number."""
    seconds = []
    for number in range(calls):
        begun = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - begun)
    return seconds


def serve(
    cases: Mapping[str, Callable[[int], list[float]]],
    about: Mapping[str, object],
    set_threads: Callable[[int], object] | None = None,
) -> None:
    """Answer requests until the input ends; what libraries print goes to the standard error from here on.

    `about` says at least how many bytes were resident before and after the load: `resident_before`, `resident_after`.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        ready = {**about, "cases": list(cases), "sets_threads": set_threads is not None, "pid": os.getpid()}
        print(json.dumps({"ready": ready}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(_answer(json.loads(line), cases, set_threads)), file=answers, flush=True)


def _answer(
    request: dict[str, Any],
    cases: Mapping[str, Callable[[int], list[float]]],
    set_threads: Callable[[int], object] | None,
) -> dict[str, object]:
    """What a request measures, or why it cannot be measured."""
    try:
        if set_threads and request.get("threads"):
            set_threads(request["threads"])
        seconds = cases[request["case"]](request["calls"])
    except Exception:  # the process lives on: its other cases may work
        return {"error": traceback.format_exc()}
    return {"seconds": seconds, "resident": resident()}


class SideFailed(RuntimeError):
    """A process of a benchmark ended, was too slow or could not measure a case."""


class Side:
    """A process of a benchmark, started by `command` with `--threads`; restarted for another number of threads."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, threads: int = 1
    ) -> None:
        self.name = name
        self.threads = threads
        self.about: dict[str, Any] = {}
        #: Bytes in memory after the last case.
        self.resident = 0
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._start()

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(self, case: str, calls: int, threads: int | None = None) -> list[float]:
        """Seconds of each of `calls` calls of a case, with so many threads inside of an operator."""
        threads = threads or self.threads
        if threads != self.threads and not self.about["sets_threads"]:
            self.close()
            self.threads = threads
            self._start()
        self.threads = threads
        self._send({"case": case, "calls": calls, "threads": threads})
        answer = self._receive("seconds", ANSWER_S)
        self.resident = answer["resident"]
        seconds: list[float] = answer["seconds"]
        return seconds

    def close(self) -> None:
        """End the process: at the end of its input, or killed where it does not end by that."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_CLOSE_S)
        self._stdout.close()
        self._stderr.close()

    def _start(self) -> None:
        """A fresh process, up to its `ready`."""
        self._stderr.close()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._lines = queue.Queue()
        command = [*self._command, "--threads", str(self.threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True, env=self._environment
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._read, args=(self._stdout, self._lines), daemon=True)
        self._reader.start()
        self.about = self._receive("ready", READY_S)["ready"]
        self.resident = self.about["resident_after"]

    @staticmethod
    def _read(stdout: IO[str], lines: "queue.Queue[str | None]") -> None:
        """Hand lines over as they come; None stands for their end."""
        for line in stdout:
            lines.put(line)
        lines.put(None)

    def _send(self, request: dict[str, object]) -> None:
        """One line to the process."""
        try:
            self._stdin.write(json.dumps(request) + "\n")
            self._stdin.flush()
        except BrokenPipeError:
            raise self._failed("has ended before it was asked") from None

    def _receive(self, field: str, within_s: float) -> dict[str, Any]:
        """The next answer with this field; other lines, as libraries print at import, are passed over."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._failed(f"gave no {field!r} within {within_s:g} s") from None
            if line is None:
                raise self._failed(f"ended without {field!r}")
            answer = _parsed(line)
            if field in answer:
                return answer
            if "error" in answer:
                raise SideFailed(f"{self.name}: {answer['error']}")

    def _failed(self, what: str) -> SideFailed:
        """The error with what the process wrote last; the process is gone after that."""
        if self._process.poll() is None:
            self._process.kill()
        code = self._process.wait()
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL))
        tail = self._stderr.read().decode(errors="replace")
        return SideFailed(f"{self.name} {what} (exit {code}), its standard error ends:\n{tail}")


def _parsed(line: str) -> dict[str, Any]:
    """The object in a line; empty where it is none."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}

"""The logs of a job's tasks as files in its directory, and reading them while they change."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from afo import storage
from afo.errors import NotFound, UsageError
from afo.job.paths import JobPaths

_TASK = re.compile(r"(chief|worker|ps|evaluator|am)(?::(\d+))?", re.ASCII)
#: Directories of tasks and of their attempts. A name goes to the terminal; another one was put there by somebody else.
_TASK_DIRECTORY = re.compile(r"(chief|worker|ps|evaluator)_(\d{1,9})|am", re.ASCII)
_ATTEMPT = re.compile(r"\d{1,9}", re.ASCII)
#: Bytes of known output by which the place in a new copy of a log is found again.
_ANCHOR = 2048
#: Of a log no more is read, from its end. The Child keeps less of each; another one was put there by somebody else.
_MOST_BYTES = 80 << 20
#: Tasks that an error names.
_MOST_NAMED = 20
#: How the Child marks what it left out of a long log.
_LEFT_OUT = b"\n[afo: bytes "


@dataclass(frozen=True)
class LogFile:
    """One stream (`stdout` or `stderr`) of one attempt; `task` is `worker:0` or `am`."""

    task: str
    attempt: int
    stream: str
    url: str


def is_task(text: str) -> bool:
    """True for `worker:0`, `ps` (all of them) and `am`."""
    return _TASK.fullmatch(text) is not None


def find_logs(paths: JobPaths, task: str | None, attempt: int | None, *, all_attempts: bool = False) -> list[LogFile]:
    """Logs that are there now: of one task, of a role, or of all; of the newest attempt unless told otherwise.

    Raises `UsageError` for something that is no task, `NotFound` when there is no log of it.
    """
    if task is not None and not is_task(task):
        raise UsageError(f"{task!r} is no task; write worker:0, ps (all of them), chief, evaluator or am")
    logs: list[LogFile] = []
    directories = {storage.name(folder): folder for folder in _directories(paths.logs)}
    if task == "chief" and not any(name.startswith("chief_") for name in directories):
        task = "worker:0"  # which is the chief of a job without one
    for name, directory in directories.items():
        found = _TASK_DIRECTORY.fullmatch(name)
        if found is None:
            continue
        role, label = (found[1], f"{found[1]}:{found[2]}") if found[1] else ("am", "am")
        if task is None or task in (role, label):
            logs += _attempts(directory, label, attempt, all_attempts)
    if not logs and task is not None:
        raise NotFound(_nothing_of(task, attempt, paths, directories))
    return logs


def _nothing_of(task: str, attempt: int | None, paths: JobPaths, names: Iterable[str]) -> str:
    """What to say where a task has no log: which of them have, by the names of their directories."""
    found = sorted(name.replace("_", ":") for name in names if _TASK_DIRECTORY.fullmatch(name))
    shown = ", ".join(found[:_MOST_NAMED]) + (", …" if len(found) > _MOST_NAMED else "")
    there = f"; there are logs of {shown}" if found else " yet"
    what = task if attempt is None else f"attempt {attempt} of {task}"
    return f"there is no log of {what} in {paths.logs}{there}; `afo status` shows the tasks"


def _attempts(directory: str, label: str, attempt: int | None, all_attempts: bool) -> list[LogFile]:
    directories = [folder for folder in _directories(directory) if _ATTEMPT.fullmatch(storage.name(folder))]
    found = {int(storage.name(folder)): folder for folder in directories}
    numbers = sorted(found) if all_attempts else [max(found)] if found else []
    if attempt is not None:
        numbers = [attempt] if attempt in found else []
    return [
        LogFile(label, number, storage.name(info.url), info.url)
        for number in numbers
        for info in storage.list_dir(found[number])
        if not info.is_dir and storage.name(info.url) in ("stdout", "stderr")
    ]


def _directories(url: str) -> list[str]:
    try:
        return sorted(info.url for info in storage.list_dir(url) if info.is_dir)
    except NotFound:
        return []


class GrowingLog:
    """Reads what is new in a log.

    A running task's log is copied to the job's directory anew every few seconds, its middle left out when it is long;
    so the place to go on is found by the bytes that came last, not by an offset.
    """

    def __init__(self, log: LogFile, tail: int | None) -> None:
        self.log = log
        self._tail = tail
        self._size = 0
        self._anchor = b""

    def new_lines(self, *, last: bool) -> list[str]:
        """Complete lines that came since the last call; with `last` an unfinished one too. Undecodable bytes → �."""
        try:
            with storage.open_input(self.log.url) as file:
                first = file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_BYTES))
                data = file.read(_MOST_BYTES)
        except NotFound:
            return []
        start = self._start(data, first)
        end = len(data) if last else data.rfind(b"\n") + 1
        if end <= start:
            return []
        self._size, self._anchor = first + end, data[max(0, end - _ANCHOR) : end]
        lines = data[start:end].decode(errors="replace").splitlines()
        if first and not start:
            lines.insert(0, f"[afo: the first {first:,} bytes are not shown]")
        keep, self._tail = self._tail, None
        return lines if keep is None else lines[len(lines) - min(keep, len(lines)) :]

    def _start(self, data: bytes, first: int) -> int:
        """Where in `data`, which begins at byte `first`, the bytes begin that were not seen yet."""
        if not self._anchor:
            return 0
        seen = self._size - first
        if len(self._anchor) <= seen <= len(data) and data[seen - len(self._anchor) : seen] == self._anchor:
            return seen
        found = data.rfind(self._anchor)
        if found >= 0:
            return found + len(self._anchor)
        return data.rfind(_LEFT_OUT) if _LEFT_OUT in data else 0

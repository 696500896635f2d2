"""The logs of a job's tasks: which names there are, and the whole of one."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from afo import storage
from afo.errors import NotFound
from afo.job.paths import JobPaths
from afo_history_server.store.job_files import JobFiles

STREAMS = ("stdout", "stderr")
_CHUNK = 256 << 10
#: `am` is the Application Master.
_TASK = re.compile(r"(?:(?:chief|worker|ps|evaluator)_[0-9]{1,6})|am")
_ATTEMPT = re.compile(r"[0-9]{1,6}")


class LogName(Struct, frozen=True):
    """One stream of one attempt. Built by `log_name` only, so each part is known to be harmless in a path."""

    task: str
    attempt: str
    stream: str

    def __str__(self) -> str:
        return f"{self.task}/{self.attempt}/{self.stream}"

    def url(self, paths: JobPaths) -> str:
        """Where it lies."""
        return storage.join(paths.logs, self.task, self.attempt, self.stream)

    def file_name(self, job_id: str) -> str:
        """A name for the user's own disk."""
        return f"{job_id}_{self.task}_{self.attempt}_{self.stream}.txt"


def log_name(task: str, attempt: str, stream: str) -> LogName:
    """Raises `NotFound` for anything that cannot be a log."""
    if not (_TASK.fullmatch(task) and _ATTEMPT.fullmatch(attempt) and stream in STREAMS):
        raise NotFound("there is no such log; one looks like worker_0/0/stderr or am/1/stderr")
    return LogName(task, attempt, stream)


def whole(file: BinaryIO) -> Iterator[bytes]:
    """An open log from its beginning, in pieces; closes it."""
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def am_attempts(files: JobFiles, paths: JobPaths) -> list[str]:
    """Attempts of the Application Master that left a log, first one first."""
    try:
        names = [storage.name(info.url) for info in files.list_dir(paths.am_logs) if info.is_dir]
    except NotFound:
        return []
    return sorted(filter(_ATTEMPT.fullmatch, names), key=int)

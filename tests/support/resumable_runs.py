"""Runs of a series that takes long, and its report: each is noted when it is done, so what was interrupted goes on."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from adult import REPOSITORY
from afo.job.embedding import Embedding


class _Timed(Protocol):
    @property
    def seconds(self) -> float: ...


Run = TypeVar("Run", bound=_Timed)


def commit() -> str:
    """Of the code under test; "-dirty" at its end where files differ from it."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def circumstances(runs: Sequence[_Timed], *packages: str) -> str:
    """A line about what was tested, for how long, where and with what, for a report.

    No job of a series names a storage of its embeddings: it is the default.
    """
    day, hours = time.strftime("%Y-%m-%d", time.gmtime()), sum(run.seconds for run in runs) / 3600
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    return (
        f"Commit {commit()}, {day}; {hours:.1f} hours of jobs on {platform.machine()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f} at the end; storage `{Embedding().storage}`; Python {platform.python_version()}, "
        f"{versions}."
    )


class ResumableRuns(Generic[Run]):
    """All good runs of one commit, in build/SERIES/COMMIT.jsonl. A run is a dataclass."""

    def __init__(self, series: str, kind: type[Run]) -> None:
        """Reads what an interrupted series of this commit left."""
        self._file = REPOSITORY / "build" / series / f"{commit()}.jsonl"
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        self.runs: list[Run] = [msgspec.json.decode(line, type=kind) for line in lines]

    def add(self, run: Run) -> Run:
        """Notes a good run."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as out:
            out.write(msgspec.json.encode(run) + b"\n")
        self.runs.append(run)
        return run

    def find(self, wanted: Callable[[Run], bool]) -> Run | None:
        """The first run of this kind that is done."""
        return next((run for run in self.runs if wanted(run)), None)


@contextmanager
def reported(
    series: str, kind: type[Run], file: Path, page: Callable[[list[Run]], str]
) -> Iterator[ResumableRuns[Run]]:
    """The runs of a series; at its end, or where an error ended it, `page` of them is written to `file`."""
    noted = ResumableRuns(series, kind)
    yield noted
    if noted.runs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(noted.runs))

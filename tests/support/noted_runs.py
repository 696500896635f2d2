"""Runs of a series that takes long: each is noted when it is done, so an interrupted series goes on after it."""

import subprocess
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from adult import REPOSITORY

Run = TypeVar("Run")


def commit() -> str:
    """Of the code under test; "-dirty" at its end where files differ from it."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class NotedRuns(Generic[Run]):
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

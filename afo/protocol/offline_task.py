"""Task of `python -m afo.train.offline`: work on this machine with a saved model, or with a job's data."""

import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from afo.formats import json_file
from afo.job import Job, RowType, TableKind
from afo.process import lifetime
from afo.storage.url import ByteRange

Kind = Literal["evaluate", "predict", "export", "recount", "try"]


class NumberedFile(Struct, frozen=True):
    """An input of a prediction, and the number in the name of its output; or a split of the training by its number."""

    number: int
    url: str
    #: None: the whole file.
    part: ByteRange | None = None


class OfflineTask(Struct, frozen=True, kw_only=True):
    """One run of that process. `output` is a directory of what `predict` and `export` write."""

    kind: Kind
    job: Job
    #: Text of the feature schema (YAML) as the model was trained with it.
    schema_file: str
    #: Of the saved model; a recount and a trial need none.
    manifest: str = ""
    files: tuple[NumberedFile, ...] = ()
    output: str = ""
    #: How embedding tables are kept: in the export, or while the model computes.
    rows: RowType = "float32"
    #: Of an export.
    tables: TableKind = "frozen"
    user_features: tuple[str, ...] = ()
    #: `output` is a directory of versions, of which one in so many is whole and so many are kept; 0: of one model.
    full_every: int = 0
    keep: int = 0
    #: Bytes that the process may take; hash tables that need more stay in files.
    memory: int | None = None
    #: Local and private to this run; holds `RESULT` afterwards.
    work_dir: str


#: Name of the file with the `OfflineResult`.
RESULT = "result.json"
#: Name of the file with the exit code of a process that a template forked.
ENDED = "ended"


def write_task(task: OfflineTask, python: str = sys.executable) -> list[str]:
    """Put a task into its directory; returns the program that carries it out, bound to the life of this process."""
    return _program(python, "afo.train.offline", str(put_task(task)))


def put_task(task: OfflineTask) -> Path:
    """Put a task into its directory; returns its file, for a template."""
    file = Path(task.work_dir, "task.json")
    json_file.write_private(file, task)
    return file


def template_program() -> list[str]:
    """The program that forks a process for each task whose file it is told, bound to the life of this process."""
    return _program(sys.executable, "afo.train.offline.template")


def _program(python: str, module: str, *arguments: str) -> list[str]:
    return lifetime.command([python, "-X", "faulthandler", "-P", "-m", module, *arguments])


class ScoredFile(Struct, frozen=True):
    """A prediction's input and output: names of the file and of its part, and the records in both."""

    url: str
    part: str
    records: int


class RecountedSplit(Struct, frozen=True, kw_only=True):
    """What a split holds: records, the xor of their hashed ids, and bad ones, of which `unread` are not in `count`."""

    number: int
    count: int
    xor: int
    bad: int = 0
    unread: int = 0


class Trial(Struct, frozen=True, kw_only=True):
    """What a job's first step came to: samples in it and their mean loss.

    `loss` is None where its tables are too large to be made for a trial, so that the step was built and not run.
    """

    samples: int
    loss: float | None = None
    #: What is allowed and probably not meant.
    warnings: tuple[str, ...] = ()


class OfflineResult(Struct, frozen=True, kw_only=True):
    """What came of a task; `error` is the name of a class of `afo.errors` and its text."""

    metrics: dict[str, float] = {}
    coverage: dict[str, float] = {}
    parts: tuple[ScoredFile, ...] = ()
    splits: tuple[RecountedSplit, ...] = ()
    trial: Trial | None = None
    #: Whether hash tables went through files, since they might not have fitted into `OfflineTask.memory`.
    in_files: bool = False
    #: What an export of versions wrote, whose changes that has, and how much it is.
    version: int | None = None
    parent: int | None = None
    bytes: int = 0
    why_whole: str = ""
    error: tuple[str, str] | None = None

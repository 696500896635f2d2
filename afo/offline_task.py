"""What the command asks of `python -m afo.train.offline`: work with a saved model on this machine."""

from typing import Literal

from msgspec import Struct

from afo.job import Job, RowType, TableKind

Kind = Literal["evaluate", "predict", "export"]


class NumberedFile(Struct, frozen=True):
    """An input of a prediction, and the number in the name of its output."""

    number: int
    url: str


class OfflineTask(Struct, frozen=True, kw_only=True):
    """One run of that process. `output` is a directory; of `evaluate` nothing is written."""

    kind: Kind
    job: Job
    #: Text of the feature schema (YAML) as the model was trained with it.
    schema_file: str
    manifest: str
    files: tuple[NumberedFile, ...] = ()
    output: str = ""
    #: How embedding tables are kept: in the export, or while the model computes.
    rows: RowType = "float32"
    #: Of an export.
    tables: TableKind = "frozen"
    #: Local and private to this run; holds `RESULT` afterwards.
    work_dir: str


#: Name of the file with the `OfflineResult`.
RESULT = "result.json"


class ScoredFile(Struct, frozen=True):
    """A prediction's input and output: names of the file and of its part, and the records in both."""

    url: str
    part: str
    records: int


class OfflineResult(Struct, frozen=True, kw_only=True):
    """What came of a task; `error` is the name of a class of `afo.errors` and its text."""

    metrics: dict[str, float] = {}
    coverage: dict[str, float] = {}
    parts: tuple[ScoredFile, ...] = ()
    error: tuple[str, str] | None = None

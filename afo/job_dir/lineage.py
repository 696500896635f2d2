"""Lineage of a model: the files of its own job, and those of the models that it was warm-started from.

No TensorFlow here.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Struct

from afo import storage
from afo.formats import decoding
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange

_T = TypeVar("_T")

#: Warm starts back to which every file is named, and how many files of them at most; older ones are sums.
FULL_GENERATIONS = 7
FULL_FILES = 50_000
#: Jobs that are named at all; those before them are one sum.
NAMED_JOBS = 400
#: Epoch of a file of which nothing was applied yet.
NO_EPOCH = -1


class AppliedFile(Struct, frozen=True):
    """How far a file was applied, or the `part` of it that is a split.

    `count` records in epoch `epoch` (from 0) and, of epochs before, all of them; printed from 1 as everywhere.
    `xor` of the hashed sample ids of those records, 16 hexadecimal digits.
    """

    url: str
    size: int
    modified: float
    epoch: int
    count: int
    xor: str
    part: ByteRange | None = None


class Totals(Struct, frozen=True):
    """A sum over files: how many, and the records of the epoch that each is in."""

    files: int = 0
    records: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """Both together."""
        return Totals(self.files + other.files, self.records + other.records)


class Evaluation(Struct, frozen=True, kw_only=True):
    """What the evaluator found of a checkpoint. `coverage`: share of the evaluation records that hold a feature."""

    metrics: dict[str, float]
    coverage: dict[str, float]


class Training(Struct, frozen=True, kw_only=True):
    """One job's part of a model. `files` is empty where only the sums are kept."""

    job_id: str
    name: str
    afo_version: str
    #: BLAKE2b of the text of the schema.
    schema_hash: str
    #: Steps of the model before and after.
    first_step: int
    step: int
    files: tuple[AppliedFile, ...]
    totals: Totals
    #: The checkpoint that was taken over; '' for the job that wrote this.
    manifest: str = ""
    final: bool = False
    metrics: dict[str, float] = {}


class Ancestry(Struct, frozen=True, kw_only=True):
    """Where a job's model came from: the jobs before it, newest first; `earlier` sums up those before the last."""

    jobs: tuple[Training, ...] = ()
    earlier_jobs: int = 0
    earlier: Totals = Totals()
    #: Of the model that was taken over: what the quality gate compares with.
    evaluation: Evaluation | None = None


class Lineage(Struct, frozen=True, kw_only=True):
    """All that is in a model."""

    own: Training
    before: Ancestry


def list_applied(files: Iterable[InputFile], positions: Iterable[Iterable[int]]) -> tuple[AppliedFile, ...]:
    """The files that were begun. `positions`: (epoch, count, xor) of each file, in the order of the files."""
    rows = ((file, tuple(int(value) for value in row)) for file, row in zip(files, positions, strict=False))
    return tuple(
        AppliedFile(file.url, file.size, file.modified, epoch, count, f"{xor % 2**64:016x}", file.part)
        for file, (epoch, count, xor) in rows
        if epoch != NO_EPOCH
    )


def totals_of(files: Iterable[AppliedFile]) -> Totals:
    """Their sum; splits of one file are one file."""
    listed = tuple(files)
    return Totals(len({file.url for file in listed}), sum(file.count for file in listed))


def derive_ancestry(lineage: Lineage, manifest_url: str, final: bool, evaluation: Evaluation | None) -> Ancestry:
    """The ancestry of a job that begins with the model of `lineage`."""
    metrics = evaluation.metrics if evaluation else {}
    parent = msgspec.structs.replace(lineage.own, manifest=manifest_url, final=final, metrics=metrics)
    jobs, cut = [], (*lineage.before.jobs[: NAMED_JOBS - 1],)
    listed = 0
    for number, job in enumerate((parent, *cut)):
        listed += len(job.files)
        full = number < FULL_GENERATIONS and listed <= FULL_FILES
        jobs.append(job if full else msgspec.structs.replace(job, files=()))
    lost = lineage.before.jobs[NAMED_JOBS - 1 :]
    earlier = lineage.before.earlier
    for job in lost:
        earlier = earlier.plus(job.totals)
    return Ancestry(
        jobs=tuple(jobs), earlier_jobs=lineage.before.earlier_jobs + len(lost), earlier=earlier, evaluation=evaluation
    )


def write_files(url: str, files: Iterable[InputFile]) -> None:
    """The list of a job's training files, for its chief."""
    storage.write_bytes(url, msgspec.json.encode(list(files)))


def read_files(url: str) -> tuple[InputFile, ...]:
    """Raises NotFound, or DataError for a malformed list."""
    return decoding.read(url, tuple[InputFile, ...])


def write_ancestry(url: str, ancestry: Ancestry) -> None:
    """Kept beside a job's checkpoints, for a chief that is started anew."""
    storage.write_bytes(url, msgspec.json.encode(ancestry))


def read_ancestry(url: str) -> Ancestry:
    """Raises NotFound, or DataError."""
    return decoding.read(url, Ancestry)

"""Looks at everything that a job names before any of it runs: schema, files, first records, output directories."""

import itertools
import os
import secrets

from msgspec import Struct

from afo import storage
from afo.data.example import decode
from afo.data.schema import Schema, parse_schema
from afo.data.splits import SplitFile, find_splits
from afo.data.tfrecord import read_records
from afo.errors import AfoError, DataError, NotFound, PermissionDenied, SpecError
from afo.job import Data, Job
from afo.own_code import own_code

#: Records of the first training and evaluation file that are compared with the schema.
FIRST_RECORDS = 100


class Inspection(Struct, frozen=True):
    """What a job will read: the schema's text, and its files in the order of their row numbers."""

    schema_text: bytes
    train: tuple[SplitFile, ...]
    eval: tuple[SplitFile, ...]


def inspect_job(job: Job, jobs_root: str) -> Inspection:
    """Raises `SpecError`, `NotFound`, `DataError` or `PermissionDenied` about the first thing that will not do."""
    text = storage.read_bytes(job.data.schema)
    schema = parse_schema(text, job.data.schema)
    _check_names(job, schema)
    _check_own_files(job)
    train = _files("data.train", job.data.train)
    evaluation = _files("data.eval", job.data.eval) if job.data.eval else ()
    for files in (train, evaluation):
        if files:
            _check_records(files[0].url, job.data, schema)
    for directory in (jobs_root, job.checkpoint.dir, job.export.dir):
        if directory:
            check_writable(directory)
    return Inspection(text, train, evaluation)


def _files(key: str, globs: tuple[str, ...]) -> tuple[SplitFile, ...]:
    try:
        return find_splits(globs)
    except NotFound as error:
        raise NotFound(f"$.{key}: {error}") from error


def _check_names(job: Job, schema: Schema) -> None:
    """Every feature that the job file names is one of the schema."""
    for index, cross in enumerate(job.model.wide.crosses):
        for name in cross:
            try:
                schema[name]
            except DataError as error:
                raise SpecError(f"$.model.wide.crosses[{index}]: {error}") from error


def _check_own_files(job: Job) -> None:
    for index, file in enumerate(job.environment.files):
        if not storage.exists(file):
            raise NotFound(f"$.environment.files[{index}]: {file} does not exist")
    code = own_code(job)
    if code is not None and not os.path.isfile(code.path):
        raise NotFound(f"{code.where}: {code.path} is no file; give its path relative to the job file")
    python = job.environment.python
    if (job.environment.is_packed or "://" in python) and not storage.exists(python):
        raise NotFound(f"$.environment.python: {python} does not exist; `afo env pack` makes one; or leave it out")


def _check_records(url: str, data: Data, schema: Schema) -> None:
    """The first records hold the schema's features, the label and whatever else the job reads of them."""
    records = [decode(record) for record in itertools.islice(read_records(url, data.compression), FIRST_RECORDS)]
    schema.validate_against(records, url)
    present = {name for record in records for name in record}
    for key, name in (
        *(("label", name) for name in data.labels),
        ("weight", data.weight),
        ("sample_id", data.sample_id),
    ):
        if name is not None and name not in present:
            known = ", ".join(sorted(present)[:20])
            raise DataError(
                f"$.data.{key}: {url}: feature `{name}` is in none of the first {len(records)} records; "
                f"there are: {known or 'none'}"
            )


def on_this_machine(job: Job) -> list[str]:
    """Places of the job file that name this machine's own disk, which containers elsewhere do not see."""
    places = [(f"$.data.train[{number}]", path) for number, path in enumerate(job.data.train)]
    places += [(f"$.data.eval[{number}]", path) for number, path in enumerate(job.data.eval)]
    places += [("$.checkpoint.dir", job.checkpoint.dir), ("$.export.dir", job.export.dir)]
    return [f"{where}: {path}" for where, path in places if path and not path.startswith("hdfs://")]


def check_writable(directory: str) -> None:
    """Makes the directory and a file in it, which is deleted again. Raises `PermissionDenied` naming the directory."""
    probe = storage.join(directory, f".afo-probe-{secrets.token_hex(6)}")
    try:
        storage.make_dirs(directory)
        storage.write_bytes(probe, b"")
        storage.delete(probe, missing_ok=True)
    except AfoError as error:
        if error.exit_code not in (1, PermissionDenied.exit_code):
            raise  # no such cluster, no such file system: another complaint than about the directory
        raise PermissionDenied(f"cannot write into {directory}: {error}; choose another directory") from error

"""Inspection of everything that a job names before it runs: schema, files, first records, output directories."""

import os
import secrets

from msgspec import Struct
from msgspec.structs import replace

from afo import storage
from afo.checkpoint.warm_start_candidates import first_of
from afo.data.io.examples import check_first
from afo.data.io.split_files import Format, SplitFile, find_files
from afo.data.prepare.infer import infer_for_job, text_of
from afo.data.prepare.inspect import look
from afo.data.prepare.markers import missing_markers
from afo.data.schema import Schema, parse_schema
from afo.errors import AfoError, DataError, NotFound, PermissionDenied, SpecError, unwritable
from afo.formats import decoding
from afo.job import Job
from afo.job.entry_point import own_code
from afo.models.feature_layout import layout_of
from afo.models.server_pooling import pooled_on_servers
from afo.models.user_cut import check_user_features
from afo.protocol.offline_task import Trial
from afo.storage.url import LOCAL, parse
from afo_client.submission.record_count import trained_records

#: Files and records of each that a schema is inferred from.
INFER_FILES = 4
INFER_RECORDS = 1000


class Inspection(Struct, frozen=True):
    """What a job will read: the schema's text, its files, and the splits of its training files by their row numbers."""

    schema_text: bytes
    train: tuple[SplitFile, ...]
    eval: tuple[SplitFile, ...]
    splits: tuple[SplitFile, ...] = ()
    #: What `data.format` says, or `auto` comes to.
    format: Format = "tfrecord"
    #: The job names no schema, so this one was made from the first records.
    inferred: bool = False
    #: What `data.wait_for` still waits for.
    awaited: tuple[str, ...] = ()
    #: Features whose rows are summed on the parameter servers; nothing is known of a model of `entry`.
    pooled: tuple[str, ...] = ()
    #: Manifest that `checkpoint.warm_start` comes to now; '' for a model that begins anew.
    warm_start: str = ""
    #: What is allowed and probably not meant.
    warnings: tuple[str, ...] = ()
    #: About as many as an epoch trains on; None where that is not known.
    records: int | None = None
    #: Of the first step, where it was tried, or why it was not.
    trial: Trial | None = None
    untried: str = ""


def complete_job(job: Job) -> Job:
    """The job with label and sample id of its schema where it names none. Raises as `inspect_job` about the schema."""
    path = job.data.schema
    if job.program or not path or (job.data.label is not None and job.data.sample_id is not None):
        return job
    return replace(job, data=parse_schema(_schema_text(path), path).complete(job.data))


def inspect_job(job: Job, jobs_root: str) -> Inspection:
    """Raises `SpecError`, `NotFound`, `DataError` or `PermissionDenied` about the first thing that will not do."""
    # Before the files, which take longer to list.
    text = _schema_text(job.data.schema) if job.data.schema else b""
    of_model = None if job.program else job.data
    schema = parse_schema(text, job.data.schema, of_model) if job.data.schema else None
    _check_own_files(job)
    begins_with = first_of(job.checkpoint.warm) if job.checkpoint.warm and not job.program else ""
    found = Inspection(text, (), ()) if job.program else _inspect_data(job, text, schema)
    for directory in (jobs_root, job.checkpoint.dir, job.export.dir):
        if directory:
            check_writable(directory)
    return replace(found, warm_start=begins_with)


def _schema_text(path: str) -> bytes:
    try:
        return decoding.whole(path)
    except NotFound as error:
        advice = "give its path relative to the job file, or leave `schema` out to have one inferred"
        raise NotFound(f"$.data.schema: {path} does not exist; {advice}") from error


def _inspect_data(job: Job, text: bytes, schema: Schema | None) -> Inspection:
    pooled = () if schema is None else _pooled_features(job, schema)
    files = find_files(job.data)
    data = replace(job.data, format=files.format)
    if schema is None:
        looked = look(files.train[:INFER_FILES], data, INFER_RECORDS)
        inferred, notes = infer_for_job(*looked, data, transformed=not job.model.entry)
        text, schema = text_of(inferred, notes).encode(), inferred
        pooled = _pooled_features(job, schema)
    check_first((files.train, files.eval), data, schema)
    return Inspection(
        text, files.train, files.eval, files.splits, files.format,
        inferred=not job.data.schema,
        awaited=tuple(missing_markers(job.data)) if job.data.wait_for else (),
        pooled=pooled,
        records=trained_records(files.train, data),
    )  # fmt: skip


def _pooled_features(job: Job, schema: Schema) -> tuple[str, ...]:
    """Features that are pooled on the servers.

    Raises SpecError unless every feature that the job file names is one of the schema.
    """
    for index, cross in enumerate(job.model.wide.crosses):
        for name in cross:
            try:
                schema[name]
            except DataError as error:
                raise SpecError(f"$.model.wide.crosses[{index}]: {error}") from error
    check_user_features(schema, job.data.labels, job.export.user_features, "$.export.user_features")
    if job.model.entry:
        _refuse_transforms(schema)
        return ()
    layout = layout_of(schema, job.model)
    return tuple(layout.sparse[place].feature for place in pooled_on_servers(layout, job, job.roles["ps"].count))


def _refuse_transforms(schema: Schema) -> None:
    """A model of the user's own gets the values as records hold them."""
    for feature in schema.features:
        if feature.transforms:
            raise SpecError(
                f"$.data.schema: feature `{feature.name}`: {feature.transforms[0]} is for `model.kind: wide_deep`;"
                " a model of your own reads values as they are: take it out, and transform them in the model,"
                " as keras.layers.Normalization and keras.ops.log1p do"
            )


def _check_own_files(job: Job) -> None:
    for index, file in enumerate(job.environment.files):
        if not storage.exists(file):
            raise NotFound(
                f"$.environment.files[{index}]: {file} does not exist; give its path relative to the job file"
            )
    code = own_code(job)
    if code is not None and not os.path.isfile(code.path):
        raise NotFound(f"{code.where}: {code.path} is no file; give its path relative to the job file")
    python = job.environment.python
    if (job.environment.is_packed or "://" in python) and not storage.exists(python):
        raise NotFound(f"$.environment.python: {python} does not exist; `afo env pack` makes one; or leave it out")


def on_this_machine(job: Job) -> list[str]:
    """Places of the job file that name this machine's own disk, which containers elsewhere do not see."""
    places = [(f"$.data.train[{number}]", path) for number, path in enumerate(job.data.train)]
    places += [(f"$.data.eval[{number}]", path) for number, path in enumerate(job.data.eval)]
    places += [("$.checkpoint.dir", job.checkpoint.dir), ("$.export.dir", job.export.dir)]
    return [f"{where}: {path}" for where, path in places if path and parse(path).scheme == LOCAL]


def check_writable(directory: str) -> None:
    """Makes the directory and a file in it, which is deleted again. Raises `unwritable` naming the directory."""
    probe = storage.join(directory, f".afo-probe-{secrets.token_hex(6)}")
    try:
        storage.make_dirs(directory)
        storage.write_bytes(probe, b"")
        storage.delete(probe, missing_ok=True)
    except AfoError as error:
        if error.exit_code not in (1, PermissionDenied.exit_code, NotFound.exit_code):
            raise  # no such cluster, no such file system: another complaint than about the directory
        raise unwritable(error, f"cannot write into {directory}: {error}; choose another directory") from error

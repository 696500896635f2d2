"""Reference to a model: that of a job, of a directory of checkpoints, of a manifest, or of an export."""

import os
from contextlib import suppress
from dataclasses import dataclass

from afo import storage
from afo.checkpoint.manifest import Manifest, read_manifest
from afo.checkpoint.warm_start_candidates import newest
from afo.errors import NotFound, UsageError
from afo.events.types import JobFinished
from afo.formats import decoding
from afo.job import ROW_TYPES, RowType
from afo.job.paths import is_job_id
from afo.site.config import Config
from afo.storage.url import parse
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported
from afo_client.jobs.ref import JobRef, find_job, job_ref
from afo_client.jobs.summary import places
from afo_client.terminal.console import say

#: What verbs take for a model.
_MODEL = "a job, a directory of checkpoints, a manifest or an exported model"


@dataclass(frozen=True)
class ModelRef:
    """A checkpoint, by its manifest. `export`: the one that was named for it; `rows`: how that keeps its tables."""

    url: str
    manifest: Manifest
    rows: RowType = "float32"
    export: str = ""

    @property
    def text(self) -> str:
        """What was named, and what stands for it."""
        words = f"{self.url} (step {self.manifest.step:,})"
        return f"{self.export}, of {words}" if self.export else words

    def job(self, config: Config) -> JobRef:
        """The job that wrote it. Raises `NotFound` for a checkpoint that does not say."""
        if self.manifest.lineage is None:
            raise NotFound(
                f"{self.url} is of an older version of afo, which does not say what job it is of; name the job"
            )
        return job_ref(config, self.manifest.lineage.own.job_id)


def find_model(config: Config, named: str | None) -> ModelRef:
    """The model of a job (the last one if nothing is named), or of a path. Raises `NotFound` or `DataError`.

    Of a job it is the checkpoint that it chose to export. Of other checkpoints the final one is taken, else the newest;
    one that the quality gate refused only by itself.
    """
    place, rows, exported = _model_place(config, named), ROW_TYPES[0], ""
    if export := read_export(place):
        place, rows, exported = export.manifest, export.rows, place
    try:
        url = newest(place)
    except NotFound as error:
        raise NotFound(_checkpoint_is_gone(export, exported) if export else f"{error}; name {_MODEL}") from error
    return ModelRef(url, read_manifest(url), rows, exported)


def _checkpoint_is_gone(export: Exported, place: str) -> str:
    return (
        f"{place} is an export of {export.manifest} (step {export.step:,}), and that checkpoint was removed: a job "
        "keeps its newest ones alone (`checkpoint.keep`). Name a version of a checkpoint that is still there, or the "
        "job for its newest one; the export itself can still be served (`afo serve`)"
    )


def read_export(place: str) -> Exported | None:
    """What the export in this directory says of itself; None of checkpoints or a manifest. Raises `DataError`."""
    if storage.name(place).endswith(".json"):  # a manifest; a file system may refuse to look below a file
        return None
    with suppress(NotFound):
        return export_info.read(place)
    return None


def checkpoint_place(config: Config, named: str | None) -> str:
    """The directory of a job's checkpoints (of the last one if nothing is named), or what was named as one; a path as
    an absolute one."""
    if named is None or is_job_id(named):
        return places(find_job(config, named))["checkpoints"]
    return _absolute(named)


def _model_place(config: Config, named: str | None) -> str:
    """The same, but of a job that chose one of its checkpoints to export, that one's manifest."""
    if named is None or is_job_id(named):
        ref = find_job(config, named)
        return _find_exported(ref) or places(ref)["checkpoints"]
    return _absolute(named)


def _absolute(named: str) -> str:
    """Raises `UsageError` for a file that is no manifest: a job's own file, mostly, in place of its id."""
    place = named if "://" in named else os.path.abspath(os.path.expanduser(named))
    name = storage.name(place)
    if not name.endswith(".json") and _is_file(place):
        what = "a job file" if name.endswith((".yaml", ".yml")) else "a file"
        raise UsageError(f"{named} is {what}; MODEL is {_MODEL}")
    return place


def _is_file(place: str) -> bool:
    with suppress(NotFound):
        return not storage.info(place).is_dir
    return False


def _find_exported(ref: JobRef) -> str:
    """The manifest that an ended job chose to export, if it is still there."""
    try:
        manifest = decoding.read(ref.paths.verdict, JobFinished).export
    except NotFound:
        return ""
    if manifest and not _is_of(ref, manifest):
        say(f"warning: {ref.paths.verdict} names {manifest}, no checkpoint of this job; its newest one is taken")
        return ""
    return manifest if manifest and storage.exists(manifest) else ""


def _is_of(ref: JobRef, manifest: str) -> bool:
    """A job's checkpoints lie in a directory of its name, wherever that is (`JobPaths.checkpoints`)."""
    steps = parse(manifest).path.split("/")
    return ref.job_id in steps and ".." not in steps

"""Files that a submission leaves beside its job for the history server: its code, and statistics of its features."""

import msgspec
from msgspec import Struct

from afo import storage
from afo.data.prepare.profile import Look, Profile, profile_splits
from afo.data.schema import parse_schema
from afo.errors import AfoError
from afo.job import Job
from afo.job.paths import JobPaths
from afo.job_dir.code_snapshot import CodeSnapshot, encode_snapshot, snapshot
from afo_client.submission.inspection import Inspection
from afo_client.terminal.console import say

#: Files, spread over all, records of each, and values in all: half a second.
_FILES, _RECORDS, _VALUES = 4, 500, 100_000


class HistoryFiles(Struct, frozen=True):
    """What they will hold of a job, as it was before it was sent."""

    code: CodeSnapshot
    statistics: Profile | None

    def write(self, paths: JobPaths) -> None:
        """Write them, where there is something to hold. The job runs whether this succeeds or not."""
        if self.code.files:
            _write(paths.code, encode_snapshot(self.code))
        if self.statistics is not None:
            _write(paths.features, msgspec.json.encode(self.statistics))


def gather_files(job: Job, found: Inspection) -> HistoryFiles:
    """What there is to hold of a job that is about to start."""
    statistics = feature_statistics(job, found)
    return HistoryFiles(snapshot(job), statistics)


def feature_statistics(job: Job, found: Inspection) -> Profile | None:
    """Of some training and evaluation data, by the first label; None of a program, and of what cannot be read so far.

    The training may still pass over damaged records, so that is no reason not to start.
    """
    if job.program:
        return None
    schema = parse_schema(found.schema_text, job.data.schema or "the inferred schema")
    label = job.data.labels[0]
    names = frozenset({label, *(feature.name for feature in schema.features)})
    look = Look(records=_RECORDS, files=_FILES, values=_VALUES, names=names, data=job.data)
    try:
        return profile_splits(found.train, found.eval, label, look)
    except AfoError as error:
        say(f"warning: no statistics of the features are kept: {error}")
        return None


def _write(url: str, data: bytes) -> None:
    try:
        storage.make_dirs(storage.parent(url), mode=0o700)
        storage.write_bytes(url, data)
    except AfoError as error:
        say(f"warning: {url} is not kept: {error}")

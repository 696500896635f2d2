"""`--limit`: the first records of a job's data, put beside its directories for a smoke run.

<jobs root>/rows-<user>/<hash of which records they are>/part-0.tfrecord

A user's runs over the same records share the files, which stay until somebody removes them.
"""

import hashlib

import msgspec
from msgspec.structs import replace

from afo import storage
from afo.data.io.split_files import SplitFile
from afo.data.prepare.first_records import Part, first_parts, suffix, write_part
from afo.job import Data, Job
from afo_client.submission.inspection import Inspection
from afo_client.submission.user_folder import make_user_folder, user_folder


def limit_records(
    job: Job, found: Inspection, limit: int, jobs_root: str, user: str, *, write: bool
) -> tuple[Job, Inspection]:
    """The job over the first `limit` records of its training and of its evaluation files, and what it will read.

    With `write=False` the files are only named. Raises DataError for damaged records, and what `make_user_folder` and
    `afo.storage` raise.
    """
    data = replace(job.data, format=found.format)
    folder = user_folder(jobs_root, "rows", user)
    if write:
        make_user_folder(folder)
    train, evaluation = (_cut_parts(files, data, limit, folder, write) for files in (found.train, found.eval))
    # Written without indexes: each is a split.
    job = replace(job, data=replace(data, train=_urls(train), eval=_urls(evaluation), split_size=None))
    return job, replace(found, train=train, eval=evaluation, splits=train, records=min(limit, found.records or limit))


def _cut_parts(files: tuple[SplitFile, ...], data: Data, limit: int, folder: str, write: bool) -> tuple[SplitFile, ...]:
    if not files:
        return ()
    parts = first_parts(files, data, limit)
    key = hashlib.sha256(msgspec.json.encode((parts, data.compression, data.max_bad_records > 0))).hexdigest()[:16]
    return tuple(
        _put(part, data, storage.join(folder, key, f"part-{number}{suffix(part.file, data)}"), write)
        for number, part in enumerate(parts)
    )


def _put(part: Part, data: Data, url: str, write: bool) -> SplitFile:
    if not write:
        return SplitFile(url, 0)
    if not storage.exists(url):
        storage.make_dirs(storage.parent(url), mode=0o700)
        write_part(part, data, url)
    written = storage.info(url)
    return SplitFile(url, written.size, written.modified)


def _urls(files: tuple[SplitFile, ...]) -> tuple[str, ...]:
    return tuple(file.url for file in files)

"""Jobs that go on and will write their models where a new one would write its own."""

from collections.abc import Iterator

from afo import storage
from afo.errors import AfoError
from afo.formats import json_file
from afo.job import Job
from afo.job.paths import JobPaths
from afo.job_dir.local_job import state_of
from afo.protocol.am_config import AmConfig
from afo.storage.url import Location, parse
from afo_client.jobs.newest_jobs import newest_jobs

#: Jobs of the root that are looked at, the newest: each takes a question or two to its file system.
LOOKED_AT = 50


def export_warnings(job: Job, root: str) -> Iterator[str]:
    """One for the first live job of `root` that exports to the same directory. A job that cannot be read has none."""
    if not job.export.dir:
        return
    place = parse(job.export.dir)
    try:
        known = newest_jobs(root, LOOKED_AT)
    except AfoError:
        return
    other = next((job_id for job_id in known if _exports_to(place, JobPaths(root, job_id))), None)
    if other:
        yield (
            f"$.export.dir: {other} has not ended and exports to {place.url} as well: the model of the job that ends"
            " last replaces the other's; give each a directory of its own"
        )


def _exports_to(place: Location, paths: JobPaths) -> bool:
    try:
        if storage.exists(paths.verdict):
            return False
        other = json_file.fetch(paths.job, AmConfig)
        if not other.job.export.dir or _key(parse(other.job.export.dir)) != _key(place):
            return False
        # One on this machine that was killed leaves no verdict.
        return other.runtime != "local" or state_of(paths) in ("RUNNING", "ORPHANED")
    except AfoError:
        return False


def _key(place: Location) -> tuple[str, str, str]:
    """However it is spelt."""
    return place.scheme, place.address, place.path

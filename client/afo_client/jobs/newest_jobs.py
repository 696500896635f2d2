"""Newest jobs of a directory of jobs, by the times of their own directories."""

from afo import storage
from afo.errors import NotFound
from afo.job.paths import is_job_id


def newest_jobs(root: str, limit: int) -> list[str]:
    """Ids of the jobs below `root`, the newest first, `limit` at most; none where there is no such directory."""
    try:
        directories = [info for info in storage.list_dir(root) if info.is_dir]
    except NotFound:
        return []
    found = [storage.name(info.url) for info in sorted(directories, key=lambda info: info.modified, reverse=True)]
    return [name for name in found if is_job_id(name)][:limit]

"""A bounded piece of the list of jobs."""

from msgspec import Struct

from afo_history_server import query
from afo_history_server.job_store import JobList
from afo_history_server.job_summary import JobSummary

DEFAULT_SIZE = 50
MAX_SIZE = 500


class Page(Struct, frozen=True, kw_only=True):
    """Page `page` of `pages`, counted from 1; `total` jobs on all of them, `left_out` older ones on none."""

    jobs: tuple[JobSummary, ...]
    page: int
    pages: int
    size: int
    total: int
    left_out: int
    scanned: float


def requested_page(found: JobList) -> Page:
    """The page that the request asks for by `page` and `size`. Raises `UsageError`."""
    size = query.number("size", DEFAULT_SIZE, 1, MAX_SIZE)
    page = query.number("page", 1, 1, 1_000_000)
    begin = (page - 1) * size
    return Page(
        jobs=found.jobs[begin : begin + size], page=page, pages=max(1, -(-len(found.jobs) // size)), size=size,
        total=len(found.jobs), left_out=found.left_out, scanned=found.scanned,
    )  # fmt: skip

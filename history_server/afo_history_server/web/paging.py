"""The piece of the list of jobs that a request asks for."""

from afo_history_server.store.job_index import JobList
from afo_history_server.views.job_query import JobQuery
from afo_history_server.web import query
from afo_history_server.web.api.types import JobsAnswer

DEFAULT_SIZE = 50
MAX_SIZE = 500


def page_of(found: JobList, wanted: JobQuery) -> JobsAnswer:
    """The page that the request asks for by `page` and `size`. Raises `UsageError`."""
    size = query.number("size", DEFAULT_SIZE, 1, MAX_SIZE)
    page = query.number("page", 1, 1, 1_000_000)
    jobs = wanted.of(found.lines)
    begin = (page - 1) * size
    return JobsAnswer(
        jobs=tuple(jobs[begin : begin + size]), page=page, pages=max(1, -(-len(jobs) // size)), size=size,
        total=len(jobs), known=len(found.lines), left_out=found.left_out, scanned=found.scanned,
        problem=found.problem, missing=found.missing, columns=tuple(each.name for each in wanted.columns),
        cells=tuple(tuple(each.value(job) for each in wanted.columns) for job in jobs[begin : begin + size]),
    )  # fmt: skip

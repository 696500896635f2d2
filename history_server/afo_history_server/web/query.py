"""Query strings of requests, and the page of the list of jobs that one asks for."""

import datetime
from collections.abc import Collection

from flask import request

from afo.errors import UsageError
from afo_history_server.model.job_history import STATES
from afo_history_server.store.job_index import JobList
from afo_history_server.views.chosen_columns import DEFAULT, columns
from afo_history_server.views.job_charts import OVER, Over
from afo_history_server.views.job_query import JobQuery, sorter
from afo_history_server.web.api.types import JobsAnswer

#: Characters of one value; whoever sends more does not type it.
_MAX_TEXT = 200
#: What a day named as the end of a time is longer than its beginning.
DAY = datetime.timedelta(days=1)
_TEXTS = ("q", "user", "queue", "cause", "tag")
LIST_NAMES = (*_TEXTS, "state", "since", "until", "column", "sort", "order", "page", "size")
#: Jobs of a page.
DEFAULT_SIZE = 50
MAX_SIZE = 500


def require_known(names: Collection[str]) -> None:
    """Raises `UsageError` where the request names anything else."""
    for name in request.args:
        if name not in names:
            raise UsageError(f"{name[:40]!r} is nothing to ask for here; allowed is {', '.join(names) or 'nothing'}")


def number(name: str, default: int, low: int, high: int) -> int:
    """The value of `name`. Raises `UsageError` for anything but a whole number from `low` to `high`."""
    text = request.args.get(name)
    if text is None:
        return default
    # int() alone also takes blanks, signs, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and low <= int(text) <= high):
        raise UsageError(f"{name} is {text[:40]!r}; allowed is a whole number from {low} to {high}")
    return int(text)


def word(name: str, default: str, allowed: Collection[str]) -> str:
    """The value of `name`. Raises `UsageError` for one that is not allowed."""
    return _one_of(name, request.args.get(name, default), allowed)


def over() -> Over:
    """What curves are drawn over. Raises `UsageError`."""
    found = word("over", "time", OVER)
    return next(choice for choice in OVER if choice == found)


def job_ids(low: int, high: int) -> list[str]:
    """What is named by `job`, each once. Raises `UsageError` for too few or too many."""
    found = list(dict.fromkeys(request.args.getlist("job")))
    if not low <= len(found) <= high:
        raise UsageError(f"{len(found)} jobs are named by `job`; allowed are {low} to {high}")
    return found


def job_query() -> JobQuery:
    """The jobs that the request asks for. Raises `UsageError`."""
    require_known(LIST_NAMES)
    states = tuple(_one_of("state", state, STATES) for state in request.args.getlist("state") if state)
    sort = text("sort") or "began"
    sorter(sort)
    return JobQuery(
        **{name: text(name) for name in _TEXTS}, state=states, since=moment("since"), until=moment("until", DAY),
        columns=columns(request.args.getlist("column") or DEFAULT), sort=sort,
        descending=word("order", "desc", ("asc", "desc")) == "desc",
    )  # fmt: skip


def _one_of(name: str, text: str, allowed: Collection[str]) -> str:
    if text not in allowed:
        raise UsageError(f"{name} is {text[:40]!r}; allowed is {', '.join(allowed)}")
    return text


def text(name: str) -> str:
    """The value of `name`, '' where there is none. Raises `UsageError` for a long one."""
    given = request.args.get(name, "").strip()
    if len(given) > _MAX_TEXT:
        raise UsageError(f"{name} has {len(given)} characters; allowed are {_MAX_TEXT}")
    return given


def moment(name: str, later: datetime.timedelta = datetime.timedelta()) -> float | None:
    """Seconds since 1970 of a moment in UTC, or of the beginning of a day; `later` is added to a day.

    None where nothing is named. Raises `UsageError` for anything else.
    """
    given = request.args.get(name, "")
    if not given:
        return None
    try:
        found = datetime.datetime.fromisoformat(given)
        found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return (found + (later if len(given) <= 10 else datetime.timedelta())).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is {given[:40]!r}; allowed is a day like 2026-11-20 or a moment like 2026-11-20T08:15:00Z (UTC)"
        ) from error


def page_of(found: JobList, wanted: JobQuery) -> JobsAnswer:
    """The page that the request asks for by `page` and `size`. Raises `UsageError`."""
    size = number("size", DEFAULT_SIZE, 1, MAX_SIZE)
    page = number("page", 1, 1, 1_000_000)
    jobs = wanted.of(found.lines)
    begin = (page - 1) * size
    return JobsAnswer(
        jobs=tuple(jobs[begin : begin + size]), page=page, pages=max(1, -(-len(jobs) // size)), size=size,
        total=len(jobs), known=len(found.lines), left_out=found.left_out, scanned=found.scanned,
        problem=found.problem, missing=found.missing, columns=tuple(column.name for column in wanted.columns),
        cells=tuple(tuple(column.value(job) for column in wanted.columns) for job in jobs[begin : begin + size]),
    )  # fmt: skip

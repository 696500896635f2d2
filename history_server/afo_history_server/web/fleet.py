"""Pages of the fleet: all jobs of a time together."""

from flask import Blueprint, render_template
from msgspec import Struct

from afo.errors import UsageError
from afo_history_server.store.job_profiles import MAX_JOBS, HotOperator, hottest
from afo_history_server.store.job_store import JobStore
from afo_history_server.views.fleet import GROUPS, Fleet, fleet, group_of, wait_core_hours
from afo_history_server.web import query
from afo_history_server.web.authentication import visible

_WEEK_S = 7 * 86400.0


class AskedFleet(Struct, frozen=True, kw_only=True):
    """What a request asked for: jobs that began in [`since`, `until`), by `by`; `tags` are those they have."""

    since: float
    until: float
    by: str
    tags: tuple[str, ...]
    scanned: float
    left_out: int
    problem: str
    fleet: Fleet
    #: Of the profiles of these jobs, the newest 500 at most.
    operators: tuple[HotOperator, ...] = ()


def fleet_blueprint(store: JobStore) -> Blueprint:
    """The route over one store."""
    routes = Blueprint("fleet", __name__)

    @routes.get("/fleet")
    def week() -> str:
        return render_template(
            "fleet.html", asked=query_fleet(store), groups=list(GROUPS), waited=wait_core_hours, now=store.clock()
        )

    return routes


def query_fleet(store: JobStore) -> AskedFleet:
    """Raises `UsageError` and what `JobStore.jobs` raises."""
    query.require_known(("since", "until", "by"))
    until = query.moment("until", query.DAY) or store.clock()
    since = query.moment("since") or until - _WEEK_S
    by = query.text("by") or "user"
    group = group_of(by)
    if group is None:
        raise UsageError(f"by is {by!r}; allowed is {', '.join(GROUPS)} or tag:NAME")
    found = visible(store.jobs())
    jobs = [job for job in found.jobs if since <= job.since < until]
    return AskedFleet(
        since=since, until=until, by=by, tags=tuple(sorted({key for job in jobs for key in job.tags})),
        scanned=found.scanned, left_out=found.left_out, problem=found.problem,
        fleet=fleet(jobs, group), operators=hottest(store.profiles(job) for job in jobs[:MAX_JOBS]),
    )  # fmt: skip

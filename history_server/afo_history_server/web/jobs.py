"""Pages of several jobs: their list, and some side by side. The pages of one job are in `job` and `logs`."""

from urllib.parse import urlencode

from flask import Blueprint, render_template, request, url_for

from afo_history_server.model.job_history import STATES
from afo_history_server.store.job_store import JobStore
from afo_history_server.views.chosen_columns import offer_columns
from afo_history_server.views.comparison import comparing_charts, differences, labels
from afo_history_server.web import query
from afo_history_server.web.authentication import visible

#: Jobs side by side: as many lines can still be told apart.
MAX_JOBS = 8
#: Lines of code that are shown of a file.
MAX_LINES = 200


def pages_blueprint(store: JobStore) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("pages", __name__)

    @routes.get("/")
    def jobs() -> str:
        wanted = query.job_query()
        page = query.page_of(visible(store.jobs()), wanted)
        return render_template(
            "jobs.html", page=page, wanted=wanted, states=STATES, link=_list_link,
            offered=offer_columns(page.jobs, wanted.columns), root=store.files.root, now=store.clock(),
        )  # fmt: skip

    return routes


def _list_link(**changes: object) -> str:
    """The list as it is asked for now, some things of the question changed; its first page unless `page` is named."""
    asked = {name: request.args.getlist(name) for name in request.args if name != "page"}
    wanted = {name: value for name, value in (asked | changes).items() if value not in ("", [""])}
    return "?".join(filter(None, (url_for("pages.jobs"), urlencode(wanted, doseq=True))))


def compare_blueprint(store: JobStore) -> Blueprint:
    """The route over one store."""
    routes = Blueprint("compare", __name__)

    @routes.get("/compare")
    def compare() -> str:
        query.require_known(("job", "over"))
        wanted, over = query.job_ids(2, MAX_JOBS), query.over()
        jobs = [store.job(job_id)[0] for job_id in wanted]
        schemas, problem = store.schemas(wanted)
        code, code_problem = store.code(wanted)
        settings = [store.settings(job_id) + schema for job_id, schema in zip(wanted, schemas, strict=True)]
        return render_template(
            "compare.html", jobs=list(zip(jobs, labels(jobs), strict=True)),
            charts=comparing_charts(jobs, over), over=over,
            differences=differences(settings), problem=problem, now=store.clock(),
            code=code, code_problem=code_problem, most_lines=MAX_LINES,
        )  # fmt: skip

    return routes

"""Jobs side by side."""

from flask import Blueprint, render_template

from afo_history_server.store.job_store import JobStore
from afo_history_server.views.comparison import comparing_charts, differences, labels
from afo_history_server.web import query

#: As many lines can still be told apart.
MAX_JOBS = 8
#: Lines of code that are shown of a file.
MAX_LINES = 200


def compare_blueprint(store: JobStore) -> Blueprint:
    """The route over one store."""
    routes = Blueprint("compare", __name__)

    @routes.get("/compare")
    def compare() -> str:
        query.known(("job", "over"))
        wanted, over = query.job_ids(2, MAX_JOBS), query.over()
        jobs = [store.job(each)[0] for each in wanted]
        schemas, problem = store.schemas(wanted)
        code, code_problem = store.code(wanted)
        settings = [store.settings(each) + schema for each, schema in zip(wanted, schemas, strict=True)]
        return render_template(
            "compare.html", jobs=list(zip(jobs, labels(jobs), strict=True)),
            charts=comparing_charts(jobs, over), over=over,
            differences=differences(settings), problem=problem, now=store.clock(),
            code=code, code_problem=code_problem, most_lines=MAX_LINES,
        )  # fmt: skip

    return routes

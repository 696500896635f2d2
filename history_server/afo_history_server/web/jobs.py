"""The list of jobs. The pages of one job are in `job_pages` and `log_pages`."""

from urllib.parse import urlencode

from flask import Blueprint, render_template, request, url_for

from afo_history_server.model.job_history import STATES
from afo_history_server.store.job_store import JobStore
from afo_history_server.views.job_columns import offered
from afo_history_server.web import query
from afo_history_server.web.authentication import visible
from afo_history_server.web.paging import page_of


def pages_blueprint(store: JobStore) -> Blueprint:
    """The routes over one store."""
    routes = Blueprint("pages", __name__)

    @routes.get("/")
    def jobs() -> str:
        wanted = query.job_query()
        page = page_of(visible(store.jobs()), wanted)
        return render_template(
            "jobs.html", page=page, wanted=wanted, states=STATES, link=_list_link,
            offered=offered(page.jobs, wanted.columns), root=store.files.root, now=store.clock(),
        )  # fmt: skip

    return routes


def _list_link(**changes: object) -> str:
    """The list as it is asked for now, some things of the question changed; its first page unless `page` is named."""
    asked = {name: request.args.getlist(name) for name in request.args if name != "page"}
    wanted = {name: value for name, value in (asked | changes).items() if value not in ("", [""])}
    return "?".join(filter(None, (url_for("pages.jobs"), urlencode(wanted, doseq=True))))

"""The web application."""

import time
from collections.abc import Callable
from pathlib import Path

from flask import Flask

from afo.site.config import load_config, user_name
from afo.site.history import HistorySite
from afo.site.user_state import UserState
from afo_history_server.maintenance.job_actions import JobActions
from afo_history_server.maintenance.tensorboards import TensorBoards
from afo_history_server.model import text
from afo_history_server.store.job_store import JobStore
from afo_history_server.store.telemetry import Telemetry
from afo_history_server.web.access import Access
from afo_history_server.web.actions import actions_blueprint
from afo_history_server.web.api.rest import api_blueprint, metrics_blueprint
from afo_history_server.web.authentication import know_viewers
from afo_history_server.web.errors import answer_problems
from afo_history_server.web.fleet import fleet_blueprint
from afo_history_server.web.job import job_pages_blueprint
from afo_history_server.web.jobs import compare_blueprint, pages_blueprint
from afo_history_server.web.logs import log_pages_blueprint
from afo_history_server.web.nodes import LiveCluster, cluster_blueprint
from afo_history_server.web.origins import Names, use_names
from afo_history_server.web.profiles import profile_blueprint
from afo_history_server.web.security import protect
from afo_history_server.web.serving import LiveServers, serving_blueprint
from afo_history_server.web.tensorboard import tensorboard_blueprint

#: Keys of `Flask.extensions`.
TENSORBOARDS = "afo_tensorboards"
JOBS = "afo_jobs"
_FILTERS = (
    text.when, text.iso, text.span, text.size, text.number, text.metric, text.share,
    text.event_type, text.event_text, text.event_task,
)  # fmt: skip


def create_app(
    jobs_root: str, clock: Callable[[], float] = time.time, index: Path | None = None,
    access: Access | None = None, secrets: UserState | None = None,
) -> Flask:  # fmt: skip
    """The application over the directory of all jobs, a path or `file://` or `hdfs://` URL.

    It changes there only what somebody asks for.

    `index`: a file for a copy of what is known of ended jobs. `access`: who may see and do what; nobody may do
    anything if left out. `secrets`: of the jobs that this user submitted. `close_app` ends what it has started.
    """
    app = Flask(__name__)
    # `//` in an address is no name of ours; the default would answer with a redirect.
    app.url_map.merge_slashes = False
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.finalize = text.harmless
    app.jinja_env.filters.update({function.__name__: function for function in _FILTERS})
    telemetry = Telemetry()
    access = access or Access(HistorySite(), user_name())
    site = access.site
    store = JobStore(jobs_root, telemetry, clock, index, check_owners=site.auth == "proxy")
    app.register_blueprint(pages_blueprint(store))
    app.register_blueprint(compare_blueprint(store))
    app.register_blueprint(fleet_blueprint(store))
    cluster = LiveCluster(store)
    app.register_blueprint(cluster_blueprint(store, cluster))
    servers = LiveServers(site, clock)
    app.register_blueprint(serving_blueprint(store, servers))
    app.jinja_env.globals["has_model_servers"] = bool(site.model_servers)
    app.register_blueprint(job_pages_blueprint(store, servers))
    app.register_blueprint(log_pages_blueprint(store))
    app.register_blueprint(profile_blueprint(store))
    app.register_blueprint(api_blueprint(store, cluster))
    app.register_blueprint(metrics_blueprint(store, telemetry))
    boards = TensorBoards()
    app.register_blueprint(tensorboard_blueprint(store, boards))
    app.extensions |= {TENSORBOARDS: boards, JOBS: store}
    actions = JobActions(store, secrets or UserState(load_config().state_dir))
    app.register_blueprint(actions_blueprint(store, actions))
    use_names(app, Names(site.name, site.tensorboard_name) if site.name else Names())
    protect(app)
    know_viewers(app, access, store)
    answer_problems(app)
    return app


def close_app(app: Flask) -> None:
    """End the processes that requests have started."""
    boards: TensorBoards = app.extensions[TENSORBOARDS]
    boards.close()

"""`afo ls`."""

from collections.abc import Sequence
from contextlib import closing, suppress

import click
from msgspec import structs

from afo import storage
from afo.errors import AfoError, NotFound, in_words
from afo.hadoop import conf
from afo.site.config import RUNTIMES, Config, RuntimeName, load_config
from afo_client.jobs.newest_jobs import newest_jobs
from afo_client.jobs.ref import job_ref
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import QUALITY_HEADS, iso, print_json, print_result, quality_cells, say, table

#: State of a job whose directory cannot be read, as the history server calls it.
_UNREADABLE = "UNREADABLE"


@click.command(help="List jobs, running and finished, newest first.")
@click.option("--runtime", type=click.Choice(RUNTIMES), help="Only jobs of this runtime.")
@click.option("--state", metavar="STATE", help="Only jobs in this state, e.g. RUNNING or FAILED.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of jobs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(runtime: RuntimeName | None, state: str | None, limit: int, as_json: bool) -> None:
    """List jobs from their directories, and what YARN knows beyond them."""
    config = load_config(runtime)
    views = _of_all(config, _runtimes(config, runtime), limit)
    views.sort(key=lambda view: (view.submitted, view.job_id), reverse=True)
    chosen = [view for view in views if state is None or view.state == state.upper()][:limit]
    for view in chosen:
        if view.state == _UNREADABLE:
            say(f"warning: {view.job_id} cannot be read: {view.message}")
    if as_json:
        print_json({"jobs": [_json(view) for view in chosen]})
    elif chosen:
        head = ("JOB", "NAME", "USER", "STATE", "STEP", *QUALITY_HEADS, "SUBMITTED")
        print_result(table(head, [_row(view) for view in chosen]))
    else:
        say(f"no jobs{''.join(f'; {root} does not exist' for root in _missing(config, runtime))}")


def _missing(config: Config, runtime: RuntimeName | None) -> list[str]:
    """Directories of jobs that are not there: before the first job, or not mounted."""
    found = []
    for name in _runtimes(config, runtime):
        with suppress(AfoError):  # no cluster, or it was named already
            root = config.jobs_root(name)
            found += [] if storage.exists(root) else [root]
    return found


def _runtimes(config: Config, asked: RuntimeName | None) -> Sequence[RuntimeName]:
    """Those whose jobs are listed: where nothing says that there is a cluster, none is missed."""
    if asked is not None:
        return [asked]
    return RUNTIMES if config.runtime.value != "local" or conf.conf_dir() is not None else ["local"]


def _of_all(config: Config, runtimes: Sequence[RuntimeName], limit: int) -> list[JobView]:
    """The newest jobs of each runtime; one that cannot be asked is named on stderr, and the other is listed.

    Raises AfoError where none can be asked.
    """
    views, problems = list[JobView](), list[tuple[RuntimeName, AfoError]]()
    for name in runtimes:
        try:
            views += _jobs(config, name, limit)
        except AfoError as error:
            problems.append((name, error))
    if len(problems) == len(runtimes):
        raise problems[0][1]
    for name, problem in problems:
        say(f"warning: jobs on {name} are not shown: {problem}")
    return views


def _jobs(config: Config, runtime: RuntimeName, limit: int) -> list[JobView]:
    try:
        root = config.jobs_root(runtime)
    except NotFound:
        return []  # no cluster is configured
    known = {listed.job_id: listed for listed in runtime_for(runtime, config).applications()}
    views = {job_id: _view(config, job_id) for job_id in newest_jobs(root, limit)}
    for job_id, application in known.items():
        state, words = application.final or application.state, application.diagnostics
        view = views.get(job_id, JobView(job_id=job_id, state=state, message=words))
        blank = {"name": application.name, "user": application.user, "queue": application.queue}
        filled = {field: getattr(view, field) or value for field, value in blank.items()}
        views[job_id] = structs.replace(view, **filled, submitted=view.submitted or application.started)
    return list(views.values())


def _view(config: Config, job_id: str) -> JobView:
    """One of many: what lies in its directory, which may be anything, must not hide the others."""
    try:
        return _glance(config, job_id)
    except Exception as error:  # also a fault of ours that one job's files bring to light
        return JobView(job_id=job_id, state=_UNREADABLE, message=in_words(error))


def _glance(config: Config, job_id: str) -> JobView:
    ref = job_ref(config, job_id)
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch:
        return watch.glance()


def _row(view: JobView) -> tuple[str, ...]:
    submitted = (iso(view.submitted) or "").replace("T", " ")[:19]
    return view.job_id, view.name, view.user, view.state, str(view.step or ""), *quality_cells(view.metrics), submitted


def _json(view: JobView) -> dict[str, object]:
    return {
        "application_id": view.job_id, "name": view.name, "user": view.user, "queue": view.queue, "state": view.state,
        "step": view.step, "samples": view.samples, "metrics": view.metrics, "submitted": iso(view.submitted),
        "problem": view.message if view.state == _UNREADABLE else "",
    }  # fmt: skip

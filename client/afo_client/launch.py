"""From a resolved job to one that runs and is followed to its end: what `submit` and `resubmit` have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Struct

from afo.config import RUNTIMES, Config
from afo.job import Job
from afo.jobfile import JobSource
from afo_client.cmd_validate import plan_text
from afo_client.conclusion import conclude
from afo_client.console import print_json, print_result, say
from afo_client.follow import DeferredInterrupt, answer_interrupt, follow
from afo_client.inspection import inspect_job
from afo_client.job_ref import JobRef
from afo_client.job_watch import JobWatch
from afo_client.runtimes import runtime_for
from afo_client.start import am_config, dry_run, start_job

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CHANGES = (
    click.option("--set", "settings", multiple=True, metavar="a.b=c", help="Replace a value of the job file."),
    click.option("--var", "variables", multiple=True, metavar="name=value", help="Set a variable of the job file."),
    click.option("--runtime", type=click.Choice(RUNTIMES), help="Where the job runs."),
)
_MANNER = (
    click.option("--detach/--wait", default=False, help="Return once submitted; or follow it to its end (default)."),
    click.option("--timeout", metavar="TIME", help="Stop following after this time, e.g. 2h (exit code 7)."),
    click.option("--kill-on-interrupt", is_flag=True, help="Ctrl-C kills the job without asking."),
    click.option("--dry-run", "only_plan", is_flag=True, help="Print what would be submitted as JSON, submit nothing."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the id."),
)  # fmt: skip


class Manner(Struct, frozen=True, kw_only=True):
    """How a job is submitted and followed; times in seconds."""

    detach: bool = False
    timeout_s: float | None = None
    kill_on_interrupt: bool = False
    only_plan: bool = False
    as_json: bool = False


def submit_options(function: _Function) -> _Function:
    """The options of a verb that starts a job: changes of its job file, and those of `Manner`."""
    for option in reversed((*_CHANGES, *_MANNER)):
        function = option(function)
    return function


def launch(config: Config, job: Job, source: JobSource, manner: Manner) -> int:
    """Check, start, follow; returns the exit code, which says how the job ended."""
    found = inspect_job(job, config.jobs_root(config.runtime.value))
    submitted, schema = am_config(config, job, found, source), found.schema_text.decode()
    if manner.only_plan:
        print_json(dry_run(submitted, schema))
        return 0
    say(plan_text(job, found, config.runtime.value))
    with DeferredInterrupt() as interrupt:  # else Ctrl-C could leave a job behind whose id nobody knows
        ref = start_job(config, submitted, schema)
        if not manner.as_json:
            print_result(ref.job_id)
        elif manner.detach:
            print_json({"application_id": ref.job_id, "state": "SUBMITTED"})
    return 0 if manner.detach and not interrupt.came else _accompany(config, ref, manner, interrupted=interrupt.came)


def _accompany(config: Config, ref: JobRef, manner: Manner, *, interrupted: bool) -> int:
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        if interrupted:
            view = answer_interrupt(watch, manner.kill_on_interrupt)
        else:
            view = follow(watch, timeout_s=manner.timeout_s, kill_on_interrupt=manner.kill_on_interrupt)
    finally:
        watch.close()
    return conclude(config, ref, view, as_json=manner.as_json)

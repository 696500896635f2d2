"""Submission of a resolved job, followed to its end: what `submit` and `resubmit` have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Struct

from afo.errors import UsageError
from afo.job import Job
from afo.job.loader import JobSource, places_of
from afo.site.config import RUNTIMES, Config
from afo_client.cli.final_summary import conclude
from afo_client.cli.options import time_option
from afo_client.cli.validate import plan_text
from afo_client.jobs.follow import DeferredInterrupt, answer_interrupt, follow
from afo_client.jobs.ref import JobRef
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.runtimes.yarn.keytab import keytab_options
from afo_client.submission.dry_run import dry_run
from afo_client.submission.flow import submit_job
from afo_client.submission.idempotency import Key
from afo_client.submission.plan import Plan, plan_job
from afo_client.submission.start import start_job
from afo_client.terminal.console import print_json, print_result, say

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CHANGES = (
    click.option("--set", "settings", multiple=True, metavar="a.b=c", help="Replace a value of the job file."),
    click.option("--var", "variables", multiple=True, metavar="name=value", help="Set a variable of the job file."),
    click.option("--runtime", type=click.Choice(RUNTIMES), help="Where the job runs."),
)
_FOLLOW = (
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="A smoke run over the first N records."),
    click.option("--detach/--wait", default=False, help="Return once submitted; or follow it to its end (default)."),
    click.option("--idempotency-key", "key", metavar="KEY", help="Start one job for this key; later calls follow it."),
    click.option("--retry", is_flag=True, help="With --idempotency-key: another job if that one FAILED or was KILLED."),
    click.option("--trial/--no-trial", default=True, help="Try the first step of an own model first (default)."),
    time_option("--timeout", "Stop following after this time, e.g. 2h (exit code 7)."),
    click.option("--kill-on-interrupt", is_flag=True, help="Ctrl-C kills the job without asking."),
    click.option("--dry-run", "only_plan", is_flag=True, help="Print what would be submitted as JSON, submit nothing."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the id."),
)  # fmt: skip


class SubmitOptions(Struct, frozen=True, kw_only=True):
    """How a job is submitted and followed; times in seconds."""

    detach: bool = False
    timeout_s: float | None = None
    kill_on_interrupt: bool = False
    only_plan: bool = False
    as_json: bool = False
    key: Key | None = None
    #: A smoke run over so many records.
    limit: int | None = None
    #: Try the first step of a model of `model.entry` before anything starts.
    trial: bool = True


def parse_submit_options(
    *, timeout: float | None, key: str | None, retry: bool, limit: int | None, **flags: bool
) -> SubmitOptions:
    """The values of the options as `SubmitOptions`. Raises `UsageError`."""
    if retry and key is None:
        raise UsageError("--retry says what a second submission with the same --idempotency-key does; give a key")
    return SubmitOptions(timeout_s=timeout, key=None if key is None else Key(key, retry), limit=limit, **flags)


def add_submit_options(function: _Function) -> _Function:
    """Options of a verb that starts a job: `settings`, `variables`, `runtime`, those of `parse_submit_options`."""
    function = keytab_options(function)
    for option in reversed((*_CHANGES, *_FOLLOW)):
        function = option(function)
    return function


def submit_and_follow(config: Config, job: Job, source: JobSource, options: SubmitOptions) -> int:
    """Check, start, follow; returns the exit code, which says how the job ended."""
    if options.only_plan:
        plan = plan_job(config, job, source, limit=options.limit, write=False)
        print_json({**dry_run(plan), "inherited": places_of(source)})
        return 0
    start = _AnnouncedStart(options)
    ref, new = submit_job(
        config, job, source, options.key, limit=options.limit, trial=options.trial, start=start, tell=say
    )
    if not new:
        say(f"{ref.job_id} was submitted with this idempotency key before")
        _announce(ref, options, new=False)
    if options.detach and not start.interrupted:
        return 0
    return _follow_to_end(config, ref, options, interrupted=start.interrupted)


class _AnnouncedStart:
    """Starts a job and prints its id. Ctrl-C does not break it, else it could leave a job whose id nobody knows."""

    def __init__(self, options: SubmitOptions) -> None:
        self._options = options
        self.interrupted = False

    def __call__(self, plan: Plan) -> JobRef:
        say(plan_text(plan.am_config.job, plan.inspection, plan.config.runtime.value))
        with DeferredInterrupt() as interrupt:
            ref = start_job(plan, say)
            _announce(ref, self._options, new=True)
        self.interrupted = interrupt.came
        return ref


def _announce(ref: JobRef, options: SubmitOptions, *, new: bool) -> None:
    if not options.as_json:
        print_result(ref.job_id)
    elif options.detach:
        print_json({"application_id": ref.job_id, "state": "SUBMITTED", "new": new})


def _follow_to_end(config: Config, ref: JobRef, options: SubmitOptions, *, interrupted: bool) -> int:
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        if interrupted:
            view = answer_interrupt(watch, options.kill_on_interrupt)
        else:
            view = follow(watch, timeout_s=options.timeout_s, kill_on_interrupt=options.kill_on_interrupt)
    finally:
        watch.close()
    return conclude(config, ref, view, as_json=options.as_json)

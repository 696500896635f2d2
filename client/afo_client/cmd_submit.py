"""`afo submit`."""

import click

from afo.config import RUNTIMES, load_config
from afo.jobfile import load_job, parse_variables
from afo.units import Duration
from afo_client.cmd_validate import plan_text
from afo_client.conclusion import conclude
from afo_client.console import print_json, print_result, say
from afo_client.examples import examples
from afo_client.follow import DeferredInterrupt, answer_interrupt, follow
from afo_client.inspection import inspect_job
from afo_client.job_watch import JobWatch
from afo_client.runtimes import runtime_for
from afo_client.start import am_config, dry_run, start_job


@click.command(
    help="Start a training job, print its id, and follow it to its end.",
    epilog=examples(
        "afo submit job.yaml",
        "afo submit job.yaml --var dt=2026-11-19 --set data.epochs=2",
        "afo submit job.yaml --detach",
        "afo submit job.yaml --json > result.json",
        "afo submit job.yaml --dry-run",
    ),
)
@click.argument("job_file", metavar="JOB_FILE", type=click.Path())
@click.option("--set", "settings", multiple=True, metavar="a.b=c", help="Replace a value of the job file.")
@click.option("--var", "variables", multiple=True, metavar="name=value", help="Set a variable of the job file.")
@click.option("--runtime", type=click.Choice(RUNTIMES), help="Where the job runs.")
@click.option("--detach/--wait", default=False, help="Return once it is submitted; or follow it to its end (default).")
@click.option("--timeout", metavar="TIME", help="Stop following after this time, e.g. 2h (exit code 7).")
@click.option("--kill-on-interrupt", is_flag=True, help="Ctrl-C kills the job without asking.")
@click.option("--dry-run", "only_plan", is_flag=True, help="Print as JSON what would be submitted, and submit nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the id.")
def command(
    job_file: str, settings: tuple[str, ...], variables: tuple[str, ...], runtime: str | None, detach: bool,
    timeout: str | None, kill_on_interrupt: bool, only_plan: bool, as_json: bool,
) -> int:  # fmt: skip
    """Check, start, follow; the exit code says how the job ended."""
    timeout_s = Duration.parse(timeout) if timeout else None
    config = load_config(runtime)
    job = load_job(job_file, settings=settings, variables=parse_variables(variables))
    found = inspect_job(job, config.jobs_root(config.runtime.value))
    submitted, schema = am_config(config, job, found), found.schema_text.decode()
    if only_plan:
        print_json(dry_run(submitted, schema))
        return 0
    say(plan_text(job, found, config.runtime.value))
    with DeferredInterrupt() as interrupt:  # else Ctrl-C could leave a job behind whose id nobody knows
        ref = start_job(config, submitted, schema)
        if not as_json:
            print_result(ref.job_id)
        elif detach:
            print_json({"application_id": ref.job_id, "state": "SUBMITTED"})
    if detach and not interrupt.came:
        return 0
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        if interrupt.came:
            view = answer_interrupt(watch, kill_on_interrupt)
        else:
            view = follow(watch, timeout_s=timeout_s, kill_on_interrupt=kill_on_interrupt)
    finally:
        watch.close()
    return conclude(config, ref, view, as_json=as_json)

"""`afo resubmit`."""

from typing import Any

import click

from afo.errors import NotFound
from afo.job.loader import parse_variables, read_again
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.cli.submit_and_follow import add_submit_options, parse_submit_options, submit_and_follow
from afo_client.jobs.ref import find_job
from afo_client.submission.submitted import need_config
from afo_client.terminal.console import say


@click.command(
    help="Start a job again as it was submitted, with the job file, settings and variables of then; --set and --var "
    "change them, and data files are listed anew. JOB left out: the one submitted last.",
    epilog=examples(
        "afo resubmit",
        "afo resubmit --var dt=2026-11-20",
        "afo resubmit application_1700000000000_0001 --set roles.worker.memory=8g --detach",
    ),
)
@click.argument("job", required=False, type=JobType())
@add_submit_options
def command(
    job: str | None, settings: tuple[str, ...], variables: tuple[str, ...], runtime: str | None, **options: Any
) -> int:  # fmt: skip
    """Submit again; the exit code says how the new job ended."""
    submit_options = parse_submit_options(**options)
    config = load_config(runtime)
    ref = find_job(config, job)
    before = need_config(config, ref)
    if before.source is None:
        raise NotFound(f"{ref.job_id} was submitted without a job file; `afo submit` one")
    name = f"the job file of {ref.job_id}"
    again, source = read_again(before.source, name, settings=settings, variables=parse_variables(variables))
    say(f"again {ref.job_id}, from {before.source.folder}")
    return submit_and_follow(load_config(runtime or ref.runtime), again, source, submit_options)

"""`afo submit`."""

from typing import Any

import click

from afo.job.loader import parse_variables, read_job
from afo.site.config import load_config
from afo_client.cli.options import examples
from afo_client.cli.submit_and_follow import add_submit_options, parse_submit_options, submit_and_follow


@click.command(
    help="Start a training job, print its id, and follow it to its end.",
    epilog=examples(
        "afo submit job.yaml",
        "afo submit job.yaml --var dt=2026-11-19 --set data.epochs=2",
        "afo submit job.yaml --detach",
        "afo submit job.yaml --json > result.json",
        "afo submit job.yaml --dry-run",
        "afo submit job.yaml --limit 5000",
    ),
)
@click.argument("job_file", metavar="JOB_FILE", type=click.Path())
@add_submit_options
def command(
    job_file: str, settings: tuple[str, ...], variables: tuple[str, ...], runtime: str | None, **options: Any
) -> int:  # fmt: skip
    """Check, start, follow; the exit code says how the job ended."""
    submit_options = parse_submit_options(**options)
    config = load_config(runtime)
    given = parse_variables(variables)
    job, source = read_job(job_file, settings=settings, variables=given, below=config.defaults)
    return submit_and_follow(config, job, source, submit_options)

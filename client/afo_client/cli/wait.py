"""`afo wait`."""

import click

from afo.site.config import load_config
from afo_client.cli.final_summary import conclude
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import time_option
from afo_client.jobs.follow import follow
from afo_client.jobs.ref import find_job
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for


@click.command(help="Wait until a job has ended. JOB left out: the one submitted last.")
@click.argument("job", required=False, type=JobType())
@time_option("--timeout", "Give up after this time, e.g. 10m (exit code 7); the job goes on.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object about the ended job.")
def command(job: str | None, timeout: float | None, as_json: bool) -> int:
    """Follow a job; the exit code says how it ended."""
    config = load_config()
    ref = find_job(config, job)
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        view = follow(watch, timeout_s=timeout)
    finally:
        watch.close()
    return conclude(config, ref, view, as_json=as_json)

"""`afo wait`."""

import click

from afo.config import load_config
from afo_client.conclusion import conclude
from afo_client.follow import follow
from afo_client.job_ref import find_job
from afo_client.job_watch import JobWatch
from afo_client.named_job import JobType
from afo_client.runtimes import runtime_for
from afo_client.time_option import time_option


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

"""`afo kill`."""

import click

from afo.config import load_config
from afo_client.console import print_json, say
from afo_client.ending import end_job
from afo_client.examples import examples
from afo_client.job_ref import find_job
from afo_client.job_watch import JobWatch
from afo_client.named_job import JobType, confirmed
from afo_client.runtimes import runtime_for
from afo_client.user_state import UserState


@click.command(
    help="End a job, and wait until nothing of it is left. A job that has ended stays as it is. "
    "JOB left out: the one submitted last, after a question on a terminal.",
    epilog=examples("afo kill application_1700000000000_0001", "afo kill", "afo kill --yes"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--reason", default="afo kill", help="Kept with the job.")
@click.option("-y", "--yes", is_flag=True, help="The job submitted last, unasked.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, reason: str, yes: bool, as_json: bool) -> None:
    """End a job; may be repeated."""
    config = load_config()
    ref = find_job(config, job)
    confirmed(f"kill {ref.job_id}", named=job is not None, yes=yes)
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        view = end_job(watch, reason)
    finally:
        watch.close()
    UserState(config.state_dir).forget_secret(ref.job_id)
    say(f"{ref.job_id} is {view.state}")
    if as_json:
        print_json({"application_id": ref.job_id, "state": view.state})

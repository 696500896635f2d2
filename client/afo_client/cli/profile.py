"""`afo profile`."""

import click

from afo.protocol.profile_request import MAX_S
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType, TaskType, job_and_task
from afo_client.cli.options import examples
from afo_client.jobs.live_task import carry_out, parse_task
from afo_client.jobs.ref import find_job
from afo_client.terminal.console import print_json, print_result


@click.command(
    help="Have a live training process take a TensorFlow profile of itself, and keep it with the job, with the stacks "
    "of its threads: the job's page in the history server shows the hottest operators. Prints its location. "
    "JOB left out: the one submitted last.",
    epilog=examples("afo profile worker:0", "afo profile application_1700000000000_0001 ps:1 --seconds 5"),
)
@click.argument("job", metavar="[JOB]", required=False, type=JobType(tasks=True))
@click.argument("task", metavar="TASK", required=False, type=TaskType())
@click.option(
    "--seconds", type=click.FloatRange(0.1, MAX_S), default=10.0, show_default=True, help="Duration in seconds."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, task: str | None, seconds: float, as_json: bool) -> None:
    """Print the URL of the profile's directory."""
    job, task = job_and_task(job, task)
    name = parse_task(task)
    config = load_config()
    ref = find_job(config, job)
    place = carry_out(config, ref, name, "profile", (f"{seconds:g}",)).output
    if as_json:
        print_json({"application_id": ref.job_id, "task": task, "profile": place})
    else:
        print_result(place)

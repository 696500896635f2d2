"""`afo stacks`."""

import click

from afo.site.config import load_config
from afo_client.cli.job_argument import JobType, TaskType, job_and_task
from afo_client.cli.options import examples
from afo_client.jobs.live_task import carry_out, parse_task
from afo_client.jobs.ref import find_job
from afo_client.terminal.console import print_json, print_result, say


@click.command(
    help="Print the stack trace of each thread of a live task: Python frames, and native frames where the node allows "
    "it. The task is not disturbed. JOB left out: the one submitted last.",
    epilog=examples("afo stacks worker:0", "afo stacks application_1700000000000_0001 ps:1"),
)
@click.argument("job", metavar="[JOB]", required=False, type=JobType(tasks=True))
@click.argument("task", metavar="TASK", required=False, type=TaskType())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, task: str | None, as_json: bool) -> None:
    """Print the stacks."""
    job, task = job_and_task(job, task)
    name = parse_task(task)
    config = load_config()
    ref = find_job(config, job)
    reply = carry_out(config, ref, name, "stacks")
    if as_json:
        print_json({"application_id": ref.job_id, "task": task, "stacks": reply.output, "truncated": reply.truncated})
        return
    print_result(reply.output.rstrip("\n"))
    if reply.truncated:
        say("there is more than is kept")

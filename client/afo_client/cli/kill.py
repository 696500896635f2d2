"""`afo kill`."""

import click

from afo.site.config import Config, load_config
from afo.site.user_state import UserState
from afo_client.cli.job_argument import JobType, TaskType, confirm_action
from afo_client.cli.options import examples
from afo_client.jobs.kill import end_job
from afo_client.jobs.live_task import TaskName, carry_out, parse_task
from afo_client.jobs.ref import JobRef, find_job
from afo_client.jobs.task_logs import is_task
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import print_json, say


@click.command(
    help="End a job, and wait until nothing of it is left. A job that has ended stays as it is. "
    "With TASK, end the process of that task alone: it comes back as after any other end. "
    "JOB left out: the one submitted last, after confirmation on a terminal.",
    epilog=examples("afo kill application_1700000000000_0001", "afo kill", "afo kill --yes", "afo kill worker:1"),
)
@click.argument("job", metavar="[JOB]", required=False, type=JobType(tasks=True))
@click.argument("task", metavar="[TASK]", required=False, type=TaskType())
@click.option("--reason", default="afo kill", help="Kept with the job.")
@click.option("-y", "--yes", is_flag=True, help="Kill the job submitted last without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, task: str | None, reason: str, yes: bool, as_json: bool) -> None:
    """End a job or a task; may be repeated."""
    if task is None and job is not None and is_task(job):
        job, task = None, job
    name = parse_task(task) if task is not None else None
    config = load_config()
    ref = find_job(config, job)
    confirm_action(f"kill {name} of {ref.job_id}" if name else f"kill {ref.job_id}", named=job is not None, yes=yes)
    if name is not None:
        _kill_task(config, ref, name, as_json)
    else:
        _kill_job(config, ref, reason, as_json)


def _kill_job(config: Config, ref: JobRef, reason: str, as_json: bool) -> None:
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        view = end_job(watch, reason)
    finally:
        watch.close()
    UserState(config.state_dir).forget_secret(ref.job_id)
    say(f"{ref.job_id} is {view.state}")
    if as_json:
        print_json({"application_id": ref.job_id, "state": view.state})


def _kill_task(config: Config, ref: JobRef, task: TaskName, as_json: bool) -> None:
    words = carry_out(config, ref, task, "kill").output.strip()
    say(f"{task} of {ref.job_id}: {words or 'its process was ended'}")
    if as_json:
        print_json({"application_id": ref.job_id, "task": str(task)})

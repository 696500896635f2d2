"""`afo status`."""

import click

from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.jobs.follow import EXIT_OF
from afo_client.jobs.ref import find_job
from afo_client.jobs.status_line import status_line
from afo_client.jobs.summary import places, summary_json, summary_text
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import print_json, print_result, size_text
from afo_client.terminal.console import table as text_table


@click.command(help="Show a job and its tasks. JOB left out: the one submitted last.")
@click.argument("job", required=False, type=JobType())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, as_json: bool) -> None:
    """Show where a job stands; the exit code is 0 whatever its state."""
    config = load_config()
    ref = find_job(config, job)
    watch = JobWatch(ref, runtime_for(ref.runtime, config))
    try:
        view = watch.look_without_runtime()
    finally:
        watch.close()
    where = places(ref)
    if as_json:
        print_json(summary_json(view, where, EXIT_OF.get(view.state, 0)))
        return
    head = "" if view.ended else status_line(view) + "\n"
    print_result("\n".join(part for part in (head + summary_text(view, where), tasks_table(view)) if part))


def tasks_table(view: JobView) -> str:
    """A task a line."""
    rows = [
        (str(task.task), task.state, str(task.task.attempt), task.phase, task.host, task.container,
         size_text(task.rss) if task.rss else "", str(task.step or ""),
         f"{task.samples_per_s:,.0f}" if task.samples_per_s else "")
        for task in view.tasks
    ]  # fmt: skip
    head = ("TASK", "STATE", "ATTEMPT", "PHASE", "HOST", "CONTAINER", "RSS", "STEP", "SAMPLES/S")
    return text_table(head, rows) if rows else ""

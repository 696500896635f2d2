"""`afo top`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.ref import find_job
from afo_client.jobs.status_line import status_line
from afo_client.jobs.task_rates import TaskRates, rates
from afo_client.jobs.view import JobView
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import print_json, print_result, size_text, table, without_control

_HEAD = ("TASK", "ATT", "PHASE", "HOST", "STEP", "STEPS/S", "SAMPLES/S", "WAIT", "CORES", "RSS", "PEAK", "LOSS")
#: Where one picture is enough, it takes two looks, so far apart: Children report once a second.
_PAUSE_S = 2.0


@click.command(
    help="Show what each task of a live job is doing, refreshed until the job has ended or Ctrl-C; once if stdout is "
    "not a terminal. Rates need the job's secret, so others see only states. "
    "JOB left out: the one submitted last.",
    epilog=examples("afo top", "afo top --json -n 10 > rates.jsonl"),
)
@click.argument("job", required=False, type=JobType())
@click.option(
    "--interval", type=click.FloatRange(0.2), default=_PAUSE_S, show_default=True, help="Seconds between updates."
)
@click.option(
    "-n", "--count", type=click.IntRange(1), help="Number of updates.  [default: on a terminal no end, else 1]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each update.")
def command(job: str | None, interval: float, count: int | None, as_json: bool) -> None:
    """Look, wait, look, show the difference; Ctrl-C is the way out."""
    config = load_config()
    ref = find_job(config, job)
    live = sys.stdout.isatty() and not as_json
    left = count or (None if live else 1)
    with closing(JobWatch(ref, runtime_for(ref.runtime, config))) as watch, _screen(live, as_json) as show:
        try:
            _watch(watch, show, interval, left)
        except KeyboardInterrupt:
            return


_Show = Callable[[JobView, list[TaskRates]], None]


def _watch(watch: JobWatch, show: _Show, interval: float, left: int | None) -> None:
    before, since = watch.look(), time.monotonic()
    while True:
        if not before.ended:
            time.sleep(interval)
        now, at = watch.look(), time.monotonic()
        show(now, rates(before, now, at - since))
        left = None if left is None else left - 1
        if now.ended or left == 0:
            return
        before, since = now, at


@contextmanager
def _screen(live: bool, as_json: bool) -> Iterator[_Show]:
    """How a picture is shown: rewritten in place, or printed."""
    if not live:
        yield lambda view, tasks: print_json(_fields(view, tasks)) if as_json else print_result(picture(view, tasks))
        return
    with Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="crop") as screen:
        yield lambda view, tasks: screen.update(Text(without_control(picture(view, tasks)), no_wrap=True), refresh=True)


def picture(view: JobView, task_rates: list[TaskRates]) -> str:
    """The job's line and a line a task."""
    return "\n".join(
        (f"{view.job_id} {without_control(view.name)}", status_line(view), table(_HEAD, [*map(_row, task_rates)]))
    )


def _row(rate: TaskRates) -> tuple[str, ...]:
    task = rate.task
    return (
        str(task.task), str(task.task.attempt), task.phase or task.state, task.host,
        _number(task.step or None, ","),
        _number(rate.steps_per_s, ",.1f"), _number(rate.samples_per_s, ",.0f"), _number(rate.input_wait, ".0%"),
        _number(rate.cores, ".2f"), size_text(task.rss) if task.rss else "",
        size_text(task.peak_rss) if task.peak_rss else "", _number(task.loss, ".4f"),
    )  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _fields(view: JobView, task_rates: list[TaskRates]) -> dict[str, object]:
    tasks = [
        {"task": str(rate.task.task), "attempt": rate.task.task.attempt, "state": rate.task.state,
         "phase": rate.task.phase, "host": rate.task.host, "step": rate.task.step, "samples": rate.task.samples,
         "steps_per_s": rate.steps_per_s, "samples_per_s": rate.samples_per_s, "input_wait": rate.input_wait,
         "cores": rate.cores, "rss": rate.task.rss, "peak_rss": rate.task.peak_rss, "loss": rate.task.loss}
        for rate in task_rates
    ]  # fmt: skip
    return {"application_id": view.job_id, "state": view.state, "step": view.step, "samples": view.samples,
            "samples_per_s": view.samples_per_s, "metrics": view.metrics, "tasks": tasks}  # fmt: skip

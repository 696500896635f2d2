"""`afo logs`."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from afo import storage
from afo.errors import NotFound, UsageError
from afo.formats.yaml_file import guess
from afo.job import ROLES
from afo.job.paths import is_job_id
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType, TaskType
from afo_client.cli.options import examples
from afo_client.jobs.ref import JobRef, find_job
from afo_client.jobs.task_logs import GrowingLog, LogFile, find_logs, is_task
from afo_client.jobs.watch import JobWatch
from afo_client.runtimes.application import ClientRuntime
from afo_client.runtimes.choice import runtime_for
from afo_client.terminal.console import print_result, say

_POLL_S = 1.0
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


@click.command(
    help="Print or follow the logs of a job's tasks, of all or of TASK (worker:0, ps, am). "
    "JOB left out: the one submitted last.",
    epilog=examples("afo logs -f", "afo logs worker:0 --tail 50", "afo logs application_1700000000000_0001 ps --all"),
)
@click.argument("job", required=False, type=JobType(tasks=True))
@click.argument("task", required=False, type=TaskType())
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--tail", type=click.IntRange(0), help="Begin with the last N lines of each log.")
@click.option(
    "--attempt", type=click.IntRange(0),
    help="Attempt, from 0; left out: the newest. For `am`, application attempt, from 1; left out: all.",
)  # fmt: skip
@click.option("--all", "all_attempts", is_flag=True, help="All attempts.")
@click.option("--out", type=click.Path(file_okay=False), help="Copy the logs into this directory instead.")
@click.option("--raw", is_flag=True, help="Print control characters as they are.")
def command(
    job: str | None, task: str | None, follow: bool, tail: int | None, attempt: int | None, all_attempts: bool,
    out: str | None, raw: bool,
) -> None:  # fmt: skip
    """Print logs to stdout; with several of them each line begins with its task."""
    if follow and out:
        raise UsageError("--follow prints and --out copies; choose one")
    if task is None and job is not None and not is_job_id(job):
        _require_task(job)
        job, task = None, job
    config = load_config()
    ref = find_job(config, job)
    runtime = runtime_for(ref.runtime, config)
    # YARN starts a second application attempt also to end a job, which says little then.
    all_attempts = all_attempts or (task == "am" and attempt is None)
    find = partial(_find_logs, runtime, ref, task, attempt, all_attempts=all_attempts)
    if out:
        _copy(find(), Path(out))
        return
    printer = _Printer(find, tail, raw)
    watch = JobWatch(ref, runtime)
    try:
        while follow and not watch.look().ended:
            printer.print_new(last=False)
            time.sleep(_POLL_S)
        printer.print_new(last=True)
    finally:
        watch.close()


def _require_task(word: str) -> None:
    """Raises `UsageError` for what is no job's id, if it is no task either."""
    if not is_task(word):
        hint = guess(word.partition(":")[0], [*ROLES, "am"])
        raise UsageError(
            f"{word!r} is not a job id, and no task; {hint}tasks are worker:0, ps (all of them), chief, evaluator, am"
        )


def _find_logs(
    runtime: ClientRuntime, ref: JobRef, task: str | None, attempt: int | None, *, all_attempts: bool
) -> list[LogFile]:
    """As `find_logs`; where the Application Master has copied nothing yet, the error says what YARN has of it."""
    try:
        return find_logs(ref.paths, task, attempt, all_attempts=all_attempts)
    except NotFound as error:
        if task != "am" or not (elsewhere := runtime.application(ref.job_id).am_log):
            raise
        line = f"yarn logs -applicationId {ref.job_id} -am 1"
        raise NotFound(f"{error}; what YARN keeps of it: {elsewhere} (`{line}`)") from error


class _Printer:
    """Prints what is new in every log that matches; logs that appear later join in."""

    def __init__(self, find: Callable[[], list[LogFile]], tail: int | None, raw: bool) -> None:
        self._find, self._tail, self._raw = find, tail, raw
        self._growing: dict[str, GrowingLog] = {}

    def print_new(self, *, last: bool) -> None:
        for log in self._find():
            if log.url not in self._growing:
                self._growing[log.url] = GrowingLog(log, self._tail)
        labels = sorted({growing.log.task for growing in self._growing.values()})
        several = len({(growing.log.task, growing.log.attempt) for growing in self._growing.values()}) > 1
        for growing in self._growing.values():
            head = _label(growing.log, labels) if several else ""
            for line in growing.new_lines(last=last):
                print_result(line, head=head, raw=self._raw)


def _label(log: LogFile, labels: list[str]) -> str:
    attempt = f"/{log.attempt}" if log.attempt else ""
    return click.style(f"[{log.task}{attempt}] ", fg=_COLOURS[labels.index(log.task) % len(_COLOURS)])


def _copy(logs: list[LogFile], directory: Path) -> None:
    for log in logs:
        target = directory / log.task.replace(":", "_") / str(log.attempt) / log.stream
        target.parent.mkdir(parents=True, exist_ok=True)
        storage.download(log.url, str(target))
        print_result(str(target))
    if not logs:
        say("no logs yet")

"""`afo exec`."""

import click

from afo.errors import UsageError
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.live_task import carry_out, parse_task
from afo_client.jobs.ref import find_job
from afo_client.jobs.task_logs import is_task
from afo_client.terminal.console import print_json, print_result, say


@click.command(
    help="Run a command beside a live task: in its container, its working directory and its environment, for at most a "
    "minute, without a shell. Its output goes to stdout, and its exit code becomes ours. "
    "JOB left out: the one submitted last.",
    context_settings={"allow_interspersed_args": False},
    epilog=examples("afo exec worker:0 -- nproc", "afo exec local_1700000000000_0001 ps:0 -- python -m pip list"),
)
@click.argument("words", metavar="[JOB] TASK -- COMMAND...", nargs=-1, required=True, type=JobType(tasks=True))
@click.option("--raw", is_flag=True, help="Print control characters as they are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(words: tuple[str, ...], raw: bool, as_json: bool) -> int:
    """Run it and print what it wrote."""
    job, task, argv = split_words(words)
    name = parse_task(task)
    config = load_config()
    ref = find_job(config, job)
    reply = carry_out(config, ref, name, "exec", argv)
    code = reply.code or 0
    if as_json:
        print_json({"application_id": ref.job_id, "task": task, "code": code, "output": reply.output,
                    "truncated": reply.truncated})  # fmt: skip
    elif reply.output:
        text = reply.output.removesuffix("\n")
        print_result(text, raw=raw)
    if reply.truncated:
        say("it wrote more than is kept; write to a file and copy it, or print less")
    return code if code >= 0 else 128 - code


def split_words(words: tuple[str, ...]) -> tuple[str | None, str, tuple[str, ...]]:
    """Job, task and command of `[JOB] TASK [--] COMMAND...`. Raises `UsageError`."""
    job, rest = (None, words) if is_task(words[0]) else (words[0], words[1:])
    argv = rest[2:] if rest[1:2] == ("--",) else rest[1:]
    if not argv:
        raise UsageError("nothing to run; write: afo exec [JOB] TASK -- COMMAND")
    return job, rest[0], argv

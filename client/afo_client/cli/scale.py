"""`afo scale`."""

import re

import click

from afo.errors import ProtocolError, UsageError
from afo.job import ROLES
from afo.rpc import messages as m
from afo.site.config import Config, load_config, user_name
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.live_task import live_master
from afo_client.jobs.ref import JobRef, find_job
from afo_client.terminal.console import pluralize, print_json, say

_WANTED = re.compile(rf"({'|'.join(ROLES)})=(\d+)")


@click.command(
    help="Change the number of workers of a live job, within the {min, max} of `roles.worker.instances`. Further ones "
    "join as their containers come; those with the highest numbers leave, and their files go to the others. "
    "JOB left out: the one submitted last.",
    epilog=examples("afo scale worker=8", "afo scale application_1700000000000_0001 worker=2"),
)
@click.argument("words", metavar="[JOB] worker=N", nargs=-1, required=True, type=JobType())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Say how many are wanted; may be repeated."""
    job, workers = split_words(words)
    config = load_config()
    ref = find_job(config, job)
    before = _scale(config, ref, workers)
    if before == workers:
        say(f"{ref.job_id} has {pluralize(workers, 'worker')} wanted already; nothing changes")
    else:
        say(f"{ref.job_id}: {pluralize(workers, 'worker')} wanted, {before} before; `afo top` shows them come and go")
    if as_json:
        print_json({"application_id": ref.job_id, "workers": workers, "before": before})


def _scale(config: Config, ref: JobRef, workers: int) -> int:
    """How many were wanted before. Raises `UsageError` where the job file does not allow the number."""
    with live_master(config, ref) as master:
        try:
            return master.scale(m.ScaleRequest(user=user_name(), workers=workers)).before
        except ProtocolError as error:
            raise UsageError(str(error)) from error


def split_words(words: tuple[str, ...]) -> tuple[str | None, int]:
    """Job and number of workers of `[JOB] worker=N`. Raises `UsageError`."""
    job, wanted = (None, words[0]) if len(words) == 1 else (words[0], " ".join(words[1:]))
    found = _WANTED.fullmatch(wanted)
    if found is None:
        raise UsageError(f"{wanted!r} is no number of workers; write e.g. worker=4, before it the job if it is not the "
                         "last one")  # fmt: skip
    if found[1] != "worker":
        raise UsageError(f"{wanted!r}: only workers can be scaled; the number of other tasks is fixed in the job file")
    return job, int(found[2])

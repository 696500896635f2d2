"""`afo annotate`."""

import sys

import click
from msgspec import structs

from afo import storage
from afo.errors import NotFound
from afo.job.paths import JobPaths
from afo.job_dir import annotations as an
from afo.site.config import load_config
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.ref import find_job
from afo_client.submission.submitted import submitted_tags
from afo_client.terminal.console import print_json, print_result


@click.command(
    help="Show and change the notes and tags of JOB, running or ended, which the history server shows and searches. "
    "KEY=VALUE sets a tag and KEY- removes one; the job file stays as it is.",
    epilog=examples(
        "afo annotate application_1700000000000_0001 team=feeds quarantined-",
        'afo annotate local_1700000000000_1 --notes "new vocabulary; compare with yesterday\'s"',
        "afo annotate local_1700000000000_1 --notes - < notes.txt",
    ),
)
@click.argument("job", type=JobType())
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE|KEY-]...")
@click.option("--notes", metavar="TEXT", help="Replace its notes; - reads them from stdin, '' removes them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str, tags: tuple[str, ...], notes: str | None, as_json: bool) -> None:
    """Print notes and tags as they are then."""
    config = load_config()
    ref = find_job(config, job)
    known = _read(ref.paths)
    own = submitted_tags(config, ref)
    now = known
    if tags:
        now = structs.replace(now, tags=an.change_tags(own if known.tags is None else known.tags, tags))
    if notes is not None:
        now = structs.replace(now, notes=_text(notes))
    if an.check_limits(now) != known:
        storage.write_bytes(ref.paths.annotations, an.encode(now))
    _show(ref.job_id, now, own, as_json)


def _show(job_id: str, now: an.Annotations, own: dict[str, str], as_json: bool) -> None:
    tags = own if now.tags is None else now.tags
    if as_json:
        print_json({"application_id": job_id, "tags": tags, "notes": now.notes})
        return
    lines = [f"{key}={value}" for key, value in sorted(tags.items())] or ["no tags"]
    print_result("\n".join([*lines, *([now.notes] if now.notes else [])]))


def _text(notes: str) -> str:
    """As they are named, or of stdin, of which no more is read than there may be."""
    text = sys.stdin.read(an.MOST_BYTES) if notes == "-" else notes
    return text.replace("\r\n", "\n").strip()


def _read(paths: JobPaths) -> an.Annotations:
    """Raises `Malformed` for a file that is damaged."""
    try:
        with storage.open_input(paths.annotations) as file:
            return an.decode(file.read(an.MOST_BYTES + 1), paths.annotations)
    except NotFound:
        return an.NONE

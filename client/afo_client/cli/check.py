"""`afo check`."""

from collections.abc import Sequence

import click

from afo import storage
from afo.checkpoint.manifest import read_manifest
from afo.errors import DataError, NotFound, UsageError
from afo.events.accounting import Account, Position, account_of
from afo.events.event_log import Record, read_log
from afo.events.types import AnyEvent, JobFinished, SplitsAdded, StoppedEarly
from afo.formats import decoding, json_file
from afo.job import Job
from afo.job.paths import JobPaths
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.protocol.offline_task import NumberedFile, OfflineTask, RecountedSplit
from afo.site.config import load_config
from afo.storage.url import part_name
from afo_client.cli.job_argument import JobType
from afo_client.cli.options import examples
from afo_client.jobs.record_check import NAMED, Findings, findings
from afo_client.jobs.ref import find_job
from afo_client.models.offline import run_dealt
from afo_client.terminal.console import pluralize, print_json, print_result, say


@click.command(
    help="Recount the records of a job, finished or running: read its training files and compare them with what was "
    "acknowledged and with its newest checkpoint; say what the model holds once, perhaps twice, or not at all. "
    "Exit code 1 if something does not match. JOB left out: the one submitted last.",
    epilog=examples("afo check", "afo check --no-files", "afo check --processes 8 --json"),
)
@click.argument("job", required=False, type=JobType())
@click.option("--files/--no-files", default=True, help="Read the training files again, or compare without them.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Files read at once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str | None, files: bool, processes: int, as_json: bool) -> int:
    """Print the account; exit code 1 where something does not fit."""
    paths = find_job(load_config(), job).paths
    config = json_file.fetch(paths.job, AmConfig)
    if config.job.program:
        raise UsageError(f"{paths.job_id} runs a program of its own; afo does not see which records it reads")
    events = [record.event for record in read_log(paths.events) if isinstance(record, Record)]
    account = account_of(events)
    _require_consistent(account, paths)
    recounted = _recount_files(paths, config, account, _inputs(events, paths), processes) if files else []
    data = config.job.data
    found = findings(
        account, _read_positions(account), recounted, complete=_is_complete(events, config.job),
        sifted=data.negative_sampling is not None or data.max_bad_records > 0,
    )  # fmt: skip
    if as_json:
        print_json(_fields(paths.job_id, found, config.job.data.batch_size))
    else:
        print_result("\n".join(_lines(found, config.job.data.batch_size)))
    return 1 if found.problems else 0


def _require_consistent(account: Account, paths: JobPaths) -> None:
    """Raises DataError for an event log whose list of splits is damaged, or that names others than it lists."""
    if account.problem:
        raise DataError(f"{paths.events}: {account.problem}")
    rows = {row for row, _ in account.acknowledged} | {row for row, *_ in account.positions}
    strange = sorted(row for row in rows if not 0 <= row < len(account.splits))
    if strange:
        raise DataError(f"{paths.events}: it names split {strange[0]}, and the job has {len(account.splits)} splits")


def _is_complete(events: Sequence[AnyEvent], job: Job) -> bool:
    """Whether the job read all of its data: it SUCCEEDED, and nothing but the data's end ended it."""
    if job.train.max_steps is not None or any(isinstance(event, StoppedEarly) for event in events):
        return False
    return any(isinstance(event, JobFinished) and event.state == "SUCCEEDED" for event in events)


def _read_positions(account: Account) -> list[Position] | None:
    """The positions in the newest checkpoint's own manifest; None where it is gone or too old to say."""
    try:
        lineage = read_manifest(account.manifest).lineage if account.manifest else None
    except NotFound:
        say(f"warning: its newest checkpoint is gone, what it held is taken from the event log: {account.manifest}")
        return None
    if lineage is None:
        return None
    rows = {name: row for row, name in enumerate(account.splits)}
    try:
        files = [(rows[part_name(file.url, file.part)], file) for file in lineage.own.files]
        return [(row, file.epoch, file.count, int(file.xor, 16)) for row, file in files]
    except (KeyError, ValueError) as error:
        raise DataError(f"{account.manifest}: its lineage is not that of the job in the event log: {error}") from error


def _inputs(events: Sequence[AnyEvent], paths: JobPaths) -> Sequence[InputFile]:
    """The file or part of each split; until version 4 of the event log that had their names alone."""
    added = [event for event in events if isinstance(event, SplitsAdded)]
    return [split for event in added for split in event.splits] or decoding.read(paths.files, tuple[InputFile, ...])


def _recount_files(
    paths: JobPaths, config: AmConfig, account: Account, inputs: Sequence[InputFile], processes: int
) -> list[RecountedSplit]:
    if len(inputs) != len(account.splits):
        raise DataError(f"{paths.files} names {len(inputs)} splits, and the event log {len(account.splits)}")
    begun = sorted({row for row, _ in account.acknowledged})
    changed = [text for row in begun if (text := _change(inputs[row]))]
    if changed:
        raise DataError("; ".join(changed[:NAMED]) + ": what was read cannot be recounted; --no-files leaves them out")
    say(f"reading {pluralize(len(begun), 'split')} again")
    wanted = [NumberedFile(row, inputs[row].url, inputs[row].part) for row in begun]

    def task(share: tuple[NumberedFile, ...], schema_file: str, work_dir: str) -> OfflineTask:
        return OfflineTask(kind="recount", job=config.job, schema_file=schema_file, files=share, work_dir=work_dir)

    results = run_dealt(task, decoding.whole(paths.schema), wanted, processes)
    return [split for result in results for split in result.splits]


def _change(file: InputFile) -> str:
    """What has become of a file since the job began; '' if nothing."""
    try:
        now = storage.info(file.url)
    except NotFound:
        return f"{file.url} is gone"
    return "" if now.size == file.size else f"{file.url} has {now.size:,} bytes and had {file.size:,}"


def _lines(found: Findings, batch_size: int) -> list[str]:
    account = found.account
    passes, total = len(account.acknowledged), len(account.splits) * account.epochs
    lines = [f"{account.records:,} records acknowledged: {passes:,} of {total:,} epochs of splits"]
    if found.recounted:
        lines.append(f"recounted: {pluralize(found.recounted, 'split')}")
    if account.given_back:
        lines.append(
            f"read again after {pluralize(account.rollbacks, 'rollback')}: {account.given_back:,} epochs of splits"
        )
    if not account.final:
        saved = f"the newest checkpoint holds {account.saved:,} records" if account.manifest else "nothing"
        lines.append(f"saved: {saved}")
    lines.append(_twice_text(account, batch_size))
    if account.lost_samples:
        lines.append(f"updates missing in restored parts: of {account.lost_samples:,} records")
    lines += [f"does not fit: {problem}" for problem in found.problems[:NAMED]]
    if len(found.problems) > NAMED:
        lines.append(f"and {len(found.problems) - NAMED:,} more; --json has all")
    return lines if found.problems else [*lines, "everything fits"]


def _twice_text(account: Account, batch_size: int) -> str:
    most = account.interrupted * batch_size
    text = f"perhaps applied twice: at most {most:,} records"
    if account.interrupted:
        text += f", a batch of {batch_size:,} for each process that ended in its work ({account.interrupted:,})"
    if account.restored:
        text += f", and what was applied while the {pluralize(account.restored, 'restored checkpoint')} was read"
    return text


def _fields(job_id: str, found: Findings, batch_size: int) -> dict[str, object]:
    account = found.account
    return {
        "job_id": job_id, "records": account.records, "epochs_of_splits": len(account.acknowledged),
        "not_acknowledged": account.number_missing, "recounted_splits": found.recounted,
        "given_back": account.given_back, "rollbacks": account.rollbacks, "restored_checkpoints": account.restored,
        "interrupted": account.interrupted, "twice_at_most": account.interrupted * batch_size,
        "lost_samples": account.lost_samples, "manifest": account.manifest,
        "saved_records": account.saved, "problems": list(found.problems),
    }  # fmt: skip

"""`afo lineage`."""

import click
import msgspec

from afo import storage
from afo.errors import DataError, NotFound
from afo.job_dir.lineage import AppliedFile, Lineage, Training
from afo.site.config import load_config
from afo.storage.url import part_name
from afo_client.cli.options import examples
from afo_client.models.model_ref import checkpoint_place, find_model, read_export
from afo_client.terminal.console import iso, pluralize, print_json, print_result, quality_text, size_text, table

#: Differences of modification times below this are rounding of a file system.
_SAME_S = 0.01


@click.command(
    help="Show what a model was trained on: the files of its job and of all models that it was warm-started from, "
    "with the checksums of what was read of them. MODEL is a job, a directory of checkpoints, a manifest or an "
    "exported model; left out: the job submitted last.",
    epilog=examples("afo lineage", "afo lineage models/2026-11-07", "afo lineage export/current --check --json"),
)
@click.argument("model", required=False)
@click.option("--check", is_flag=True, help="Compare with the files as they are now; exit code 1 if any has changed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(model: str | None, check: bool, as_json: bool) -> int:
    """Print a lineage; exit code 1 only with --check."""
    url, step, lineage = _lineage(model)
    jobs = (lineage.own, *lineage.before.jobs)
    # Once for all splits of a file.
    files = {(file.url, file.size, file.modified): file for job in jobs for file in job.files}
    changed = [text for file in files.values() if (text := _change(file))] if check else []
    if as_json:
        fields: dict[str, object] = {"manifest": url, "step": step, "lineage": msgspec.to_builtins(lineage)}
        print_json({**fields, "changed": changed} if check else fields)
    else:
        print_result("\n".join([f"{url} (step {step:,})", *_text(lineage), *changed]))
        if check and not changed:
            print_result("every file that is named is as it was")
    return 1 if changed else 0


def _lineage(named: str | None) -> tuple[str, int, Lineage]:
    """Manifest, step and lineage. An export holds its own, whatever has become of its checkpoint."""
    config = load_config()
    if found := read_export(checkpoint_place(config, named)):
        url, step, lineage = found.manifest, found.step, found.lineage
    else:
        model = find_model(config, named)
        url, step, lineage = model.url, model.manifest.step, model.manifest.lineage
    if lineage is None:
        raise DataError(f"{url} was written by a version of afo that does not note what is in a model")
    return url, step, lineage


def _text(lineage: Lineage) -> list[str]:
    lines = _job_text(lineage.own)
    for job in lineage.before.jobs:
        lines += _job_text(job)
    if lineage.before.earlier_jobs:
        before = lineage.before
        lines.append(
            f"before these {pluralize(before.earlier_jobs, 'job')}: {pluralize(before.earlier.files, 'file')}, "
            f"{pluralize(before.earlier.records, 'record')}"
        )
    return lines


def _job_text(job: Training) -> list[str]:
    head = (
        f"{job.name} ({job.job_id}), steps {job.first_step:,} to {job.step:,}: {pluralize(job.totals.files, 'file')}, "
        f"{pluralize(job.totals.records, 'record')}{_epochs(job)}{_metrics_text(job)}"
    )
    rows = [
        (
            f"  {part_name(file.url, file.part)}",
            size_text(file.size),
            iso(file.modified) or "",
            f"{file.count:,}",
            str(file.epoch + 1),
            file.xor,
        )
        for file in job.files
    ]
    titles = ("  FILE", "SIZE", "MODIFIED", "RECORDS", "EPOCH", "XOR OF IDS")
    return [head, table(titles, rows)] if rows else [head]


def _epochs(job: Training) -> str:
    """Whose records are counted: those of the epochs before are in the model as well."""
    epochs = sorted({file.epoch + 1 for file in job.files})
    if not epochs or epochs[-1] == 1:
        return ""
    return f" of epoch {epochs[-1]}" if len(epochs) == 1 else f" of epochs {epochs[0]} to {epochs[-1]}"


def _metrics_text(job: Training) -> str:
    measured = quality_text(job.metrics)
    return f", {measured}" if measured else ""


def _change(file: AppliedFile) -> str:
    """What has become of a file since it was read; '' if nothing."""
    try:
        now = storage.info(file.url)
    except NotFound:
        return f"{file.url} is gone"
    if now.size != file.size:
        return f"{file.url} has {now.size:,} bytes and had {file.size:,}"
    if abs(now.modified - file.modified) > _SAME_S:
        return f"{file.url} was written again at {iso(now.modified)}"
    return ""

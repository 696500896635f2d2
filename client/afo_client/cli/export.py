"""`afo export`."""

import os
from contextlib import suppress

import click

from afo import storage
from afo.data.schema import parse_schema
from afo.errors import AlreadyExists, NotFound, UsageError
from afo.job import ROW_TYPES, TABLE_KINDS, Export, RowType, TableKind
from afo.job.export import MOST_FULL_EVERY
from afo.models.user_cut import check_user_features
from afo.protocol.offline_task import OfflineResult
from afo.site.config import load_config
from afo_client.cli.options import examples, memory_option
from afo_client.models.offline import SavedModel, run, saved_model
from afo_client.terminal.console import print_json, print_result


@click.command(
    help="Make a SavedModel of a checkpoint, as a job does at its end, but without its quality gate. MODEL is a job, "
    "a directory of checkpoints or a manifest.",
    epilog=examples(
        "afo export application_1700000000000_0001 --out serving/ctr",
        "afo export models/2026-11-07 --out hdfs://ns1/serving/ctr --overwrite",
        "afo export models/2026-11-07 --out serving/small --rows int8",
        "afo export application_1700000000000_0001 --out serving/ctr --delta --tables native",
    ),
)
@click.argument("model")
@click.option(
    "--out", "output", required=True, metavar="DIRECTORY", help="Where the SavedModel, or with --delta a version, goes."
)
@click.option(
    "--delta", is_flag=True, help="Write the next version below --out, with what changed since another one; a whole "
    "one where none is there that the checkpoint goes back to.",
)  # fmt: skip
@click.option(
    "--full-every", type=click.IntRange(1, MOST_FULL_EVERY), default=Export().full_every, show_default=True,
    help="With --delta: one in so many versions is whole.",
)  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(1, 10_000), default=Export().keep, show_default=True,
    help="With --delta: versions to keep, beside those that they need.",
)  # fmt: skip
@click.option("--rows", type=click.Choice(ROW_TYPES), help="Format of embedding tables; left out: as the job says.")
@click.option("--tables", type=click.Choice(TABLE_KINDS), help="Form of hash tables; left out: as the job says.")
@click.option(
    "--user-features",
    metavar="NAMES",
    help="Features that are the same for all items of a request, with commas between; '': none; left out: as the job"
    " says.",
)
@memory_option
@click.option("--overwrite", is_flag=True, help="Replace the SavedModel that is there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    model: str, output: str, delta: bool, full_every: int, keep: int, rows: RowType | None, tables: TableKind | None,
    user_features: str | None, memory: int | None, overwrite: bool, as_json: bool,
) -> None:  # fmt: skip
    """Export on this machine."""
    output = output.rstrip("/") if "://" in output else os.path.abspath(os.path.expanduser(output))
    found = saved_model(load_config(), model)
    if delta and overwrite:
        raise UsageError("--delta adds a version and replaces nothing; leave --overwrite out")
    if not (delta or overwrite):
        _require_empty(output)
    rows = rows or found.job.export.rows
    tables = tables or found.job.export.tables
    of_user = _names(user_features, found) if user_features is not None else found.job.export.user_features
    [result] = run(
        found, "export", output=output, rows=rows, tables=tables, memory=memory, full_every=full_every if delta else 0,
        keep=keep, user_features=of_user,
    )  # fmt: skip
    step = found.ref.manifest.step
    if as_json:
        print_json({
            "output": output, "manifest": found.ref.url, "step": step, "rows": rows, "tables": tables,
            "user_features": of_user, "tables_in_files": result.in_files, "version": result.version,
            "parent": result.parent,
        })  # fmt: skip
    else:
        print_result(
            f"{_place(output, result)}: the model of {found.ref.url} (step {step:,}), {tables} tables, rows of {rows}"
        )


def _require_empty(output: str) -> None:
    with suppress(NotFound):
        if storage.list_dir(output):
            raise AlreadyExists(f"{output} holds something; name another directory, or replace it with --overwrite")


def _place(output: str, result: OfflineResult) -> str:
    if result.version is None:
        return output
    what = f"whole ({result.why_whole})" if result.parent is None else f"what changed since version {result.parent}"
    return f"{storage.join(output, str(result.version))}, {what}"


def _names(text: str, model: SavedModel) -> tuple[str, ...]:
    """Raises SpecError for names that are no features of the model."""
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    labels = model.job.data.labels
    check_user_features(parse_schema(model.schema, "schema.yaml"), labels, names, "--user-features")
    return names

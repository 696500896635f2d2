"""`afo export`."""

import os

import click

from afo import storage
from afo.errors import AlreadyExists, NotFound
from afo.job import ROW_TYPES, TABLE_KINDS, RowType, TableKind
from afo.site.config import load_config
from afo_client.cli.options import examples, memory_option
from afo_client.models.offline import run, saved_model
from afo_client.terminal.console import print_json, print_result


@click.command(
    help="Make a SavedModel of a checkpoint, as a job does at its end, but without its quality gate. MODEL is a job, "
    "a directory of checkpoints or a manifest.",
    epilog=examples(
        "afo export application_1700000000000_0001 --out serving/ctr",
        "afo export models/2026-11-07 --out hdfs://ns1/serving/ctr --overwrite",
        "afo export models/2026-11-07 --out serving/small --rows int8",
    ),
)
@click.argument("model")
@click.option("--out", "output", required=True, metavar="DIRECTORY", help="Where the SavedModel goes.")
@click.option("--rows", type=click.Choice(ROW_TYPES), help="Format of embedding tables; left out: as the job says.")
@click.option("--tables", type=click.Choice(TABLE_KINDS), help="Form of hash tables; left out: as the job says.")
@memory_option
@click.option("--overwrite", is_flag=True, help="Replace the SavedModel that is there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    model: str, output: str, rows: RowType | None, tables: TableKind | None, memory: int | None, overwrite: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Export on this machine."""
    output = output.rstrip("/") if "://" in output else os.path.abspath(os.path.expanduser(output))
    found = saved_model(load_config(), model)
    try:
        taken = bool(storage.list_dir(output))
    except NotFound:
        taken = False
    if taken and not overwrite:
        raise AlreadyExists(f"{output} holds something; name another directory, or replace it with --overwrite")
    rows = rows or found.job.export.rows
    tables = tables or found.job.export.tables
    [result] = run(found, "export", output=output, rows=rows, tables=tables, memory=memory)
    step = found.ref.manifest.step
    if as_json:
        print_json({"output": output, "manifest": found.ref.url, "step": step, "rows": rows, "tables": tables,
                    "tables_in_files": result.in_files})  # fmt: skip
    else:
        print_result(f"{output}: the model of {found.ref.url} (step {step:,}), {tables} tables, rows of {rows}")

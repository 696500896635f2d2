"""`afo data`: make, convert and look at training data."""

import os
import sys
from typing import Any, Literal

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from afo.data.io.split_files import find_splits
from afo.data.prepare.convert import convert_csv
from afo.data.prepare.infer import infer_schema, text_of
from afo.data.prepare.inspect import FeatureReport, Report, inspect_files
from afo.data.prepare.profile import value_text
from afo.data.schema import read_schema
from afo.data.synthetic.clicks import Answer, SynthParameters, synthesize
from afo.data.synthetic.teacher import TeacherSpec
from afo.errors import DataError, UsageError
from afo_client.cli.csv_options import csv_format, csv_options
from afo_client.cli.data_behaviour import behaviour
from afo_client.cli.data_index import index
from afo_client.cli.data_profile import profile
from afo_client.cli.options import examples
from afo_client.terminal.console import pluralize, print_json, print_result, say, table, without_control

_COMPRESSION = click.Choice(["none", "gzip", "zlib"])
_POSITIVE = click.IntRange(min=1)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def command() -> None:
    """Generate, convert and inspect training data (docs/data.md)."""


command.add_command(behaviour)
command.add_command(index)
command.add_command(profile)


@command.command(
    epilog=examples("afo data synth demo-data --train 100000 --eval 20000"),
)
@click.argument("directory")
@click.option("--train", default=1_500_000, show_default=True, type=_POSITIVE, help="Training records.")
@click.option("--eval", "evaluation", default=200_000, show_default=True, type=_POSITIVE, help="Evaluation records.")
@click.option("--train-files", default=16, show_default=True, type=_POSITIVE, help="Files to write.")
@click.option("--eval-files", default=4, show_default=True, type=_POSITIVE, help="Files to write.")
@click.option(
    "--compression", default="none", show_default=True, type=_COMPRESSION, help="Compression of the files written."
)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of the teacher and the records."
)
@click.option("--processes", type=_POSITIVE, help="Writing processes; default: one per core.")
@_as_json
def synth(
    directory: str,
    train: int,
    evaluation: int,
    train_files: int,
    eval_files: int,
    compression: Literal["none", "gzip", "zlib"],
    seed: int,
    processes: int | None,
    as_json: bool,
) -> None:
    """Write synthetic click data with a known best AUC into DIRECTORY. Repeating it does nothing."""
    try:
        parameters = SynthParameters(
            train=train,
            eval=evaluation,
            train_files=train_files,
            eval_files=eval_files,
            compression=compression,
            teacher=TeacherSpec(seed=seed),
        )
    except DataError as error:
        raise UsageError(str(error)) from error
    answer = with_progress(directory, parameters, processes)
    if as_json:
        print_json({"directory": directory, **msgspec.to_builtins(answer)})
    else:
        say(f"{directory}: {train:,} training and {evaluation:,} evaluation records")
        print_result(f"best reachable: auc {answer.auc:.4f}  log loss {answer.log_loss:.4f}")


def with_progress(directory: str, parameters: SynthParameters, processes: int | None = None) -> Answer:
    """Make a data set with a progress bar on a terminal; by default with a process a core."""
    processes = processes or len(os.sched_getaffinity(0))
    columns = (TextColumn("records"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("records", total=parameters.train + parameters.eval)
        return synthesize(directory, parameters, processes, lambda records: progress.advance(bar, records))


@command.command(
    short_help="Convert CSV files to TFRecord files.",
    epilog=examples("afo data convert day.csv --schema schema.yaml --out clicks/train --files 8"),
)
@click.argument("files", nargs=-1, required=True)
@click.option("--schema", "schema_path", required=True, help="Schema file (YAML).")
@click.option("--out", "directory", required=True, help="Directory for the TFRecord files.")
@csv_options
@click.option("--label", help="Column of the label; left out: the one named as the schema's label.")
@click.option("--weight", help="Column of the samples' weights, for `data.weight`; every row must hold one.")
@click.option("--files", "count", default=1, show_default=True, type=_POSITIVE, help="TFRecord files to write.")
@click.option(
    "--compression", default="none", show_default=True, type=_COMPRESSION, help="Compression of the files written."
)
@click.option("--index", "indexed", is_flag=True, help="Write the index of each file, too (`afo data index`).")
@click.option("--overwrite", is_flag=True, help="Replace all part-NNNNN.tfrecord files in the directory.")
@_as_json
def convert(
    files: tuple[str, ...],
    schema_path: str,
    directory: str,
    label: str | None,
    weight: str | None,
    count: int,
    compression: Literal["none", "gzip", "zlib"],
    indexed: bool,
    overwrite: bool,
    as_json: bool,
    **csv: Any,
) -> None:
    """Convert CSV FILES (paths, URLs or globs) to TFRecord files."""
    if indexed and compression != "none":
        raise UsageError(f"--index and --compression {compression}: a compressed file is read from its start alone")
    urls = [split.url for split in find_splits(files)]
    written = convert_csv(
        urls, directory, read_schema(schema_path), csv_format(label=label, weight=weight, **csv), count, compression,
        indexed=indexed, overwrite=overwrite,
    )  # fmt: skip
    for cell in written.unmet:
        say(f"warning: no row has a label of {cell!r} (--positive)")
    if as_json:
        print_json({"directory": directory, "records": written.records, "files": count})
    else:
        say(f"{directory}: {written.records:,} records in {pluralize(count, 'file')}")


@command.command(
    short_help="Show what data files hold.",
    epilog=examples(
        "afo data inspect 'hdfs:///ctr/dt=2026-11-19/part-*' --count",
        "afo data inspect 'clicks/*' --infer > schema.yaml",
        r"afo data inspect day.tsv --separator='|' --missing NULL --infer",
    ),
)
@click.argument("files", nargs=-1, required=True)
@click.option("--records", default=1000, show_default=True, type=_POSITIVE, help="Records to read from each file.")
@click.option("--look-at", default=4, show_default=True, type=_POSITIVE, help="Files to read.")
@click.option("--count", is_flag=True, help="Count all records of all files; verify the checksums of TFRecord.")
@click.option("--infer", is_flag=True, help="Print a schema (YAML) for review.")
@csv_options
@click.option("--label", help="For CSV: label column, for --positive.")
@_as_json
def inspect(
    files: tuple[str, ...], records: int, look_at: int, count: bool, infer: bool, label: str | None, as_json: bool,
    **csv: Any,
) -> None:  # fmt: skip
    """Show what TFRecord, Parquet or CSV FILES (paths, URLs or globs) hold, from their first records."""
    report = inspect_files(files, records, look_at, count, csv_format(label=label, **csv))
    if report.unread:
        say(without_control(report.unread))
    if infer:
        print_result(text_of(*infer_schema(report.features, report.looked_at)), newline=False)
    elif as_json:
        print_json(msgspec.to_builtins(report))
    else:
        _print_report(report)


def _print_report(report: Report) -> None:
    files = [
        (
            file.url,
            f"{file.bytes:,}",
            file.format,
            file.compression,
            "" if file.records is None else f"{file.records:,}",
        )
        for file in report.files
    ]
    features = [_cells(feature, report.looked_at) for feature in report.features]
    print_result(table(("FILE", "BYTES", "FORMAT", "COMPRESSION", "RECORDS"), files))
    print_result(f"\nin the first {report.looked_at:,} records:")
    print_result(table(("FEATURE", "VALUES", "PRESENT", "LENGTH", "DISTINCT", "MIN", "MAX"), features))


def _cells(feature: FeatureReport, looked_at: int) -> tuple[str, ...]:
    shortest, longest = feature.min_length, feature.max_length
    return (
        feature.name,
        feature.kind,
        f"{feature.present / looked_at:.1%}",
        str(shortest) if shortest == longest else f"{shortest}-{longest}",
        str(feature.distinct),
        "" if feature.min is None else value_text(feature.min),
        "" if feature.max is None else value_text(feature.max),
    )

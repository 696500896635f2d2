"""`afo init`."""

from pathlib import Path
from typing import Any

import click

from afo.errors import AlreadyExists, UsageError, unwritable
from afo_client.cli.csv_options import csv_format, csv_options
from afo_client.cli.options import examples
from afo_client.terminal.console import print_result, say

JOB_FILE = "job.yaml"


@click.command(
    help="Write a job file with comments, and a schema, into FOLDER (left out: here). With --train they describe your "
    "data, as far as the first records tell; without, what `afo data synth` makes. CSV files are converted into "
    "FOLDER/records, as `afo data convert` does. Nothing is overwritten.",
    epilog=examples(
        "afo init",
        "afo init ctr --train 'clicks/train/*' --eval 'clicks/eval/*' --label click",
        "afo init ctr --train monday.csv --eval tuesday.csv --label bought --positive yes",
    ),
)
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--train", multiple=True, metavar="GLOB", help="Training files; may be given again.")
@click.option("--eval", "evaluation", multiple=True, metavar="GLOB", help="Evaluation files; may be given again.")
@click.option("--label", help="Feature that is predicted.  [default: the one called label or click]")
@click.option("--name", help="The job's name.  [default: the folder's]")
@csv_options
def command(
    folder: Path, train: tuple[str, ...], evaluation: tuple[str, ...], label: str | None, name: str | None, **csv: Any
) -> None:
    """Write both files or none; their names go to stdout."""
    from afo_client.submission import new_job  # NumPy is slow to import

    if (evaluation or label) and not train:
        raise UsageError("--eval and --label belong to --train; name the training files, too")
    files = [folder / JOB_FILE, folder / new_job.SCHEMA]
    for file in (*files, folder / new_job.RECORDS):
        if file.exists():
            raise AlreadyExists(f"{file} is there already and stays as it is; name another folder: afo init FOLDER")
    csv_form = csv_format(label=label, **csv)
    inputs = new_job.inputs_of(train, evaluation, folder, csv_form) if train else new_job.synthetic_inputs()
    texts = [
        new_job.job_text(name or folder.resolve().name or "job", str(files[0]), inputs),
        new_job.schema_text(inputs),
    ]
    for file, text in zip(files, texts, strict=True):
        _create(file, text)
        print_result(str(file))
    for note in inputs.notes:
        say(f"note: {note}")
    say(f"review them, then: afo validate {files[0]}")


def _create(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise AlreadyExists(f"{file} is there already and stays as it is") from error
    except OSError as error:
        raise unwritable(error, f"cannot write {file}: {error.strerror}; name another folder") from error

"""The text of a new job file, with the keys that a first job needs, and further ones to take the `# ` from."""

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from afo.data.io.csv_file import CsvFormat, single_column_hint
from afo.data.io.split_files import find_splits
from afo.data.prepare.convert import Converted, convert_csv
from afo.data.prepare.infer import infer_for_job, infer_schema, text_of
from afo.data.prepare.inspect import inspect_files
from afo.data.schema import Schema
from afo.data.synthetic.clicks import schema_of
from afo.data.synthetic.teacher import TeacherSpec
from afo.errors import UsageError
from afo.job import Data
from afo_client.submission.record_count import trained_records

#: Beside a job file: its schema, and where records that are made of CSV files lie.
SCHEMA, RECORDS = "schema.yaml", "records"
_TEMPLATE = """\
# A training job. `afo validate {file}` checks it, `afo submit {file}` starts it.
# Relative paths are relative to this file. Every key, with values and defaults: docs/job-file.md.
name: {name}
# queue: default                                    # of YARN
# tags: {{team: feeds}}                               # of the application on YARN
{variables}
roles:
  ps: {{instances: 1, memory: 1 GiB, vcores: 1}}      # hold the model's variables
  worker: {{instances: {workers}, memory: 1536 MiB, vcores: 1}}
{evaluator}
  # chief: {{memory: 1536 MiB}}                       # saves and exports; left out: worker 0 does it, too

data:
  schema: {schema}
  train: {train}
{eval}
  label: {label}
{sample_id}
  batch_size: {batch_size}
{epochs}
  # wait_for: _SUCCESS                              # a marker that every directory must hold before
  # max_bad_records: 0.001                          # share of corrupt records that is skipped

model:
  kind: wide_deep
  hidden_units: [128, 64, 32]
  embedding: {{dim: 8}}                               # hash_buckets: 100000 would bound the rows of a feature
  # wide: {{crosses: [{cross}]}}
# model: {{entry: my_ctr.py:build}}                   # a model of your own instead: a function that returns it

# optimizer: {{deep: {{adam: {{learning_rate: 0.001}}}}}}
{train_section}
checkpoint: {{every: 5m, keep: 3}}
# export: {{dir: model}}                              # left out: in the job's own directory
"""
#: Where comments begin.
_COLUMN = 52


#: Steps that a first job should make, and the epochs that it may take for them.
_STEPS, _MOST_EPOCHS = 200, 5
#: Batches of a job of few records and of many.
_SMALLEST_BATCH, _BATCH = 64, 1024
#: Files that each worker should have, and those with which none idles: one may hold two, since it reads ahead.
_FILES_PER_WORKER, _FEWEST_PER_WORKER = 4, 2


@dataclass(frozen=True)
class Size:
    """Keys that follow from how much there is to read."""

    workers: int = 2
    batch_size: int = _BATCH
    epochs: int = 1


def size_for(files: int, records: int | None) -> Size:
    """No worker that may idle; some 200 steps, first by smaller batches, then by more epochs."""
    workers = max(1, min(Size.workers, files // _FEWEST_PER_WORKER))
    if not records:
        return Size(workers)
    batch_size = _BATCH
    while batch_size > _SMALLEST_BATCH and records < _STEPS * batch_size:
        batch_size //= 2
    return Size(workers, batch_size, min(_MOST_EPOCHS, -(-_STEPS * batch_size // records)))


def files_for(records: int) -> int:
    """Into how many files CSV files of at least so many rows go: none holds less than the smallest batch."""
    return max(1, min(_FILES_PER_WORKER * Size.workers, records // _SMALLEST_BATCH))


@dataclass(frozen=True)
class Inputs:
    """What a job reads. `train` and `eval` as they stand in its file; `notes` on the schema are for review."""

    schema: Schema
    train: tuple[str, ...]
    eval: tuple[str, ...]
    label: str
    notes: tuple[str, ...] = ()
    variables: str = ""
    size: Size = Size()


def synthetic_inputs() -> Inputs:
    """What `afo data synth data` makes."""
    schema = schema_of(TeacherSpec())
    return Inputs(
        schema, ("{{data}}/train/*",), ("{{data}}/eval/*",), schema.label or "",
        variables=f"{'vars: {data: data}':<{_COLUMN}}# `afo data synth data --train 100000` makes one",
    )  # fmt: skip


def inputs_of(train: Sequence[str], evaluation: Sequence[str], folder: Path, csv_format: CsvFormat) -> Inputs:
    """The schema inferred from the first records of `train`, globs relative to the present directory.

    CSV files are converted into `folder`. Raises `UsageError` when no feature looks like the label and none is named,
    and what reading and converting the files raises.
    """
    label = csv_format.label
    report = inspect_files(train, csv_format=csv_format)
    guessed, _ = infer_schema(report.features, report.looked_at)
    names = [feature.name for feature in report.features]
    chosen = label or guessed.label
    if chosen is None or chosen not in names:
        what = f"--label {label}: no such feature in the data" if label else "no feature looks like the label"
        hint = single_column_hint(names) or "name one with --label;"
        raise UsageError(f"{what}; {hint} there are: {', '.join(names[:20])}")
    said = Data(train=tuple(train), label=chosen, sample_id=guessed.sample_id)
    schema, notes = infer_for_job(report.features, report.looked_at, said)
    notes += [report.unread] if report.unread else []
    if any(csv_format.is_csv(glob) for glob in (*train, *evaluation)):
        number = files_for(report.looked_at)
        written = _convert(train, evaluation, folder, schema, csv_format, number)
        unmet = set.intersection(*(set(converted.unmet) for converted in written))
        notes += [f"no row has a label of {cell!r} (--positive)" for cell in sorted(unmet)]
        notes.append(_how_to_convert_again({"train": train, "eval": evaluation}, folder, csv_format, number))
        size = size_for(number, written[0].records)
        train_glob, eval_glob = (f"{RECORDS}/{part}/part-*" for part in ("train", "eval"))
        return Inputs(schema, (train_glob,), (eval_glob,) if evaluation else (), chosen, tuple(notes), size=size)
    files = find_splits([glob if "://" in glob else os.path.abspath(glob) for glob in train])
    size = size_for(len(files), trained_records(files, said))
    return Inputs(schema, _relative(train, folder), _relative(evaluation, folder), chosen, tuple(notes), size=size)


def _convert(
    train: Sequence[str], evaluation: Sequence[str], folder: Path, schema: Schema, csv_format: CsvFormat, number: int
) -> list[Converted]:
    """Make records of CSV files, `number` files of each part, all or none."""
    target, written = folder.resolve() / RECORDS, []
    try:
        for part, globs in (("train", train), ("eval", evaluation)):
            urls = [split.url for split in find_splits(globs)] if globs else []
            if urls:
                written.append(convert_csv(urls, str(target / part), schema, csv_format, number))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return written


def _how_to_convert_again(parts: Mapping[str, Sequence[str]], folder: Path, csv_format: CsvFormat, number: int) -> str:
    """What the records need once a person has changed the schema that they were made by."""
    options = {
        "--columns": [",".join(csv_format.columns)] if csv_format.columns else [],
        "--delimiter": [csv_format.delimiter] if csv_format.delimiter else [],
        "--separator": [csv_format.separator] if csv_format.separator else [],
        "--skip-lines": [str(csv_format.skip_lines)] if csv_format.skip_lines else [],
        "--missing": csv_format.missing,
        "--positive": csv_format.positive,
    }
    # A tab is written as the options take it: text for a person holds no control characters.
    words = [f"{name}={value}".replace("\t", r"\t") for name, values in options.items() for value in values]
    words += ["--strip"] if csv_format.strip else []
    lines = [
        shlex.join(["afo", "data", "convert", *globs, "--schema", str(folder / SCHEMA),
                    "--out", str(folder / RECORDS / part), f"--files={number}", "--overwrite", *words])
        for part, globs in parts.items() if globs
    ]  # fmt: skip
    return f"the records were made by this schema; where you change it, make them again: {' && '.join(lines)}"


def _relative(globs: Sequence[str], folder: Path) -> tuple[str, ...]:
    return tuple(glob if "://" in glob or os.path.isabs(glob) else os.path.relpath(glob, folder) for glob in globs)


def job_text(name: str, file: str, inputs: Inputs) -> str:
    """The job file."""
    evaluated = bool(inputs.eval)
    cross = [feature.name for feature in inputs.schema.features if feature.kind != "dense"][:2]
    return _TEMPLATE.format(
        file=file,
        schema=SCHEMA,
        name=json.dumps(name, ensure_ascii=False),
        variables=inputs.variables or f"{'# vars: {dt: 2026-11-19}':<{_COLUMN}}# used as {{{{dt}}}}, {{{{dt-1}}}}",
        evaluator=_comment_out(evaluated, "  evaluator: {memory: 1536 MiB, vcores: 1}", "measures each checkpoint"),
        train=_words(inputs.train),
        eval=_comment_out(evaluated, f"  eval: {_words(inputs.eval or ('eval/*',))}", "for the evaluator"),
        label=json.dumps(inputs.label, ensure_ascii=False),
        workers=inputs.size.workers,
        batch_size=inputs.size.batch_size,
        epochs=f"  epochs: {inputs.size.epochs}" if inputs.size.epochs > 1 else "  # epochs: 1",
        sample_id=_comment_out(
            inputs.schema.sample_id is not None, f"  sample_id: {json.dumps(inputs.schema.sample_id or 'id')}",
            "an integer that names a sample",
        ),
        cross=_words(cross) if len(cross) == 2 else "[a, b]",
        train_section=_comment_out(evaluated, "train: {eval_every: 5m}", "how often the evaluator measures"),
    )  # fmt: skip


def schema_text(inputs: Inputs) -> str:
    """The schema file, with what was left out of it."""
    return text_of(inputs.schema, inputs.notes)


def _words(words: Sequence[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def _comment_out(wanted: bool, line: str, words: str) -> str:
    """A line of the job file, made a comment unless wanted."""
    text = line if wanted else line.replace(line.lstrip(), f"# {line.lstrip()}")
    return f"{text:<{_COLUMN}}# {words}"

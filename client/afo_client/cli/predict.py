"""`afo predict`."""

import os
import re
import secrets
from contextlib import suppress

import click
import msgspec

from afo import storage
from afo.errors import AfoError, AlreadyExists, NotFound, StorageError, UsageError
from afo.protocol.offline_task import ScoredFile
from afo.site.config import load_config
from afo_client.cli.options import examples, memory_option
from afo_client.models.offline import SavedModel, input_files, run, saved_model
from afo_client.terminal.console import pluralize, print_json, print_result, say

#: In the output: what was scored with which model; last of all, that everything is there.
MODEL, SUCCESS = "_model.json", "_SUCCESS"


@click.command(
    help="Score files with a saved model on this machine, and write CSV files to a directory here or in HDFS, which "
    "appears whole or not at all. MODEL is a job, a directory of checkpoints, a manifest or an exported model.",
    epilog=examples(
        "afo predict models/2026-11-07 --data 'clicks/2026-11-08/part-*' --out scores/2026-11-08",
        "afo predict hdfs://ns1/models/2026-11-07 --data 'hdfs://ns1/clicks/2026-11-08/*' "
        "--out hdfs://ns1/scores/2026-11-08 --overwrite",
    ),
)
@click.argument("model")
@click.option("--data", "globs", multiple=True, required=True, metavar="GLOB", help="Files to score; may be repeated.")
@click.option("--out", "output", required=True, metavar="DIRECTORY", help="Where the scores go.")
@click.option("--overwrite", is_flag=True, help="Replace what is in the directory.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(min=1), help="Files scored at a time.")
@memory_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    model: str, globs: tuple[str, ...], output: str, overwrite: bool, processes: int, memory: int | None, as_json: bool
) -> None:  # fmt: skip
    """Score everything, then let the directory appear."""
    output = output.rstrip("/") if "://" in output else os.path.abspath(os.path.expanduser(output))
    _check_free(output, overwrite)
    found = saved_model(load_config(), model)
    files = input_files(globs)
    say(f"{pluralize(len(files), 'file')} with {found.ref.url}")
    _name_leftovers(output)
    hidden = storage.join(storage.parent(output), f".{storage.name(output)}.{secrets.token_hex(6)}.tmp")
    storage.make_dirs(hidden)
    try:
        results = run(found, "predict", files, hidden, processes, memory=memory)
        parts = [part for result in results for part in result.parts]
        _finish(found, sorted(parts, key=lambda part: part.part), hidden, output, overwrite)
    finally:
        storage.delete(hidden, recursive=True)
    records = sum(part.records for part in parts)
    if as_json:
        print_json({"output": output, "manifest": found.ref.url, "files": len(parts), "records": records,
                    "tables_in_files": any(result.in_files for result in results)})  # fmt: skip
    else:
        print_result(f"{output}: {pluralize(records, 'record')} in {pluralize(len(parts), 'file')}")


def _name_leftovers(output: str) -> None:
    """A run that was killed could not remove what it had written; whether another one still writes nobody can say."""
    pattern = re.compile(rf"\.{re.escape(storage.name(output))}\.[0-9a-f]{{12}}\.tmp")
    with suppress(AfoError):
        found = [entry.url for entry in storage.list_dir(storage.parent(output))]
        for url in (url for url in found if pattern.fullmatch(storage.name(url))):
            say(f"note: {url} is of another run with this --out; if that was killed, remove it")


def _is_taken(output: str) -> bool:
    try:
        return bool(storage.list_dir(output))
    except NotFound:
        return False


def _check_free(output: str, overwrite: bool) -> None:
    taken = _is_taken(output)
    if taken and not overwrite:
        raise AlreadyExists(f"{output} holds something; name another directory, or replace it with --overwrite")
    if storage.parent(output) == output:
        raise UsageError(f"{output} is the root of a file system; name a directory in it")


def _finish(model: SavedModel, parts: list[ScoredFile], hidden: str, output: str, overwrite: bool) -> None:
    about = {"manifest": model.ref.url, "step": model.ref.manifest.step, "parts": msgspec.to_builtins(parts)}
    storage.write_bytes(storage.join(hidden, MODEL), msgspec.json.encode(about))
    storage.write_bytes(storage.join(hidden, SUCCESS), b"")
    if overwrite:
        storage.delete(output, recursive=True)
    try:
        storage.rename(hidden, output)
    except StorageError as error:
        if not _is_taken(output):
            raise
        raise AlreadyExists(
            f"{output} was written by another run while this one scored; the scores of this one are not kept"
        ) from error

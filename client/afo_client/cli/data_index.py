"""`afo data index`: indexes of TFRecord files, by which a job cuts them into splits."""

import click

from afo.data.io.record_index import index_url, write_index
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import index_records
from afo_client.cli.options import examples
from afo_client.terminal.console import pluralize, print_json, say


@click.command(
    short_help="Write the indexes by which `data.split_size` cuts files.",
    epilog=examples("afo data index 'hdfs:///ctr/dt=2026-11-19/part-*'"),
)
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def index(files: tuple[str, ...], as_json: bool) -> None:
    """Write the index of each of the TFRecord FILES (paths, URLs or globs) beside it, as `.NAME.index`."""
    written = []
    for file in find_splits(files):
        found = index_records(file.url)
        write_index(file.url, found)
        written.append({"url": file.url, "index": index_url(file.url), "records": found.records, "bytes": found.size})
        if not as_json:
            say(f"{index_url(file.url)}: {pluralize(found.records, 'record')}")
    if as_json:
        print_json({"files": written})

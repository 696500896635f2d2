"""`afo env`."""

import platform
from pathlib import Path

import click
import msgspec

from afo import __version__
from afo_client.cli.options import examples
from afo_client.terminal.console import pluralize, print_json, print_result, say, size_text


@click.group(name="env")
def command() -> None:
    """Python environments for the containers of jobs."""


@command.command(
    help="Pack the environment that afo runs in into an archive that needs no Python on the nodes.",
    epilog=examples(
        "afo env pack --out env.tar.gz",
        "afo env pack --include 'afo[train]' --include my-features",
        "afo env pack --exclude mypy --exclude pytest",
        "afo submit job.yaml --set environment.python=./env.tar.gz",
    ),
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The archive.  [default: ./NAME.tar.gz]")
@click.option("--name", help="Name of the environment.  [default: from the versions of afo and Python]")
@click.option(
    "--include",
    multiple=True,
    metavar="PACKAGE",
    help="Pack only afo, this package and its dependencies; may be repeated.",
)
@click.option("--exclude", multiple=True, metavar="PACKAGE", help="Leave this package out; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def pack(out: Path | None, name: str | None, include: tuple[str, ...], exclude: tuple[str, ...], as_json: bool) -> None:
    """Write the archive and say what to do with it."""
    from afo_client import packing  # importlib.metadata and its like are slow to import

    name = name or f"afo-{__version__}-py{platform.python_version()}"
    packed = packing.pack(out or Path(f"{name}.tar.gz"), name, include=include, exclude=exclude, say=say)
    if as_json:
        print_json(msgspec.to_builtins(packed))
        return
    print_result(packed.file)
    say(f"{size_text(packed.size)}, Python {packed.python}, {pluralize(len(packed.packages), 'package')}")
    say(f"sha256 {packed.sha256}")
    say(f"in a job file: environment: {{python: {packed.file}}}")

"""`afo history`."""

import os
import sys

import click

from afo.config import load_config
from afo.errors import NotFound
from afo_client import history_process
from afo_client.console import print_json, print_result, say

_PORT = 18089


@click.group(help="Show jobs in a browser: the history server of this machine.")
def command() -> None:
    """The verbs of the history server."""


@command.command(help="Start the history server, or say where it already runs.")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0: any free one.")
@click.option("--root", metavar="URL", help="Directory of all jobs; left out: the configured one.")
@click.option("--runtime", type=click.Choice(("local", "yarn")), help="Whose jobs, without --root.")
@click.option("--foreground", is_flag=True, help="Serve from this terminal until Ctrl-C.")
def start(port: int, root: str | None, runtime: str | None, foreground: bool) -> None:
    """Print the address on stdout."""
    config = load_config(runtime)
    arguments = history_process.command_line(config.state_dir, root or config.jobs_root(config.runtime.value), port)
    if foreground:
        sys.stdout.flush()
        os.execv(arguments[0], arguments)
    server = history_process.running(config.state_dir)
    if server is None:
        server = history_process.start(config.state_dir, arguments)
        say(f"history server started over {server.root}; end it with `afo history stop`")
    elif server.command != arguments:
        say(f"a history server runs already over {server.root}; `afo history stop` ends it")
    print_result(server.address)


@command.command(help="Stop the history server.")
def stop() -> None:
    """Stopping what does not run is no error."""
    server = history_process.running(load_config().state_dir)
    if server is None:
        say("no history server runs")
        return
    history_process.stop(server)
    say(f"history server at {server.address} stopped")


@command.command(help="Say where the history server runs; exit code 5 if it does not.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> None:
    """Print the address on stdout."""
    server = history_process.running(load_config().state_dir)
    if server is None:
        raise NotFound("no history server runs here; `afo history start` starts one")
    if as_json:
        print_json({"address": server.address, "pid": server.pid, "root": server.root})
    else:
        print_result(server.address)

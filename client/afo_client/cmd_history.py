"""`afo history`."""

import os
import sys

import click

from afo.config import load_config
from afo.errors import NotFound
from afo.history_site import LOOPBACK
from afo.token_file import make_token
from afo_client import history_process
from afo_client.console import print_json, print_result, say

_PORT = 18089


@click.group(help="Show jobs in a browser: the history server of this machine.")
def command() -> None:
    """The verbs of the history server."""


@command.command(help="Start the history server, or say where it already runs.")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0: any free one.")
@click.option(
    "--root",
    metavar="URL",
    help="Directory of all jobs; left out: $AFO_HISTORY_DIR, `history.directory` of the site, the runtime's.",
)
@click.option("--runtime", type=click.Choice(("local", "yarn")), help="Whose jobs, without --root.")
@click.option("--foreground", is_flag=True, help="Serve from this terminal until Ctrl-C.")
def start(port: int, root: str | None, runtime: str | None, foreground: bool) -> None:
    """Print the address on stdout."""
    config = load_config(runtime)
    shown = root or config.history_directory.value or config.jobs_root(config.runtime.value)
    arguments = history_process.command_line(config.state_dir, shown, port, foreground)
    if foreground:
        make_token(history_process.token_file(config.state_dir, foreground))
        say("`afo history login --foreground` prints an address that signs you in")
        sys.stdout.flush()
        os.execv(arguments[0], arguments)
    server = history_process.running(config.state_dir)
    if server is None:
        server = history_process.start(config.state_dir, arguments)
        say(f"history server started over {server.root}; end it with `afo history stop`")
        say("`afo history login` prints an address that signs you in, to kill and delete jobs from their pages")
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


@command.command(help="Print an address that signs you in, so that you may kill and delete jobs from their pages.")
@click.option("--foreground", is_flag=True, help="Of a server that serves from a terminal.")
@click.option("--port", type=click.IntRange(1, 65535), default=_PORT, show_default=True, help="With --foreground.")
def login(foreground: bool, port: int) -> None:
    """The address holds the server's token: it is for this user alone."""
    config = load_config()
    token = history_process.token_file(config.state_dir, foreground)
    if foreground:
        print_result(history_process.sign_in_address(f"http://{config.history.name or LOOPBACK}:{port}", token))
        return
    server = history_process.running(config.state_dir)
    if server is None:
        raise NotFound("no history server runs here; `afo history start` starts one")
    print_result(history_process.sign_in_address(server.address, token))


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

"""`afo history`."""

import os
import sys
from pathlib import Path
from typing import cast

import click

from afo.errors import ClusterUnreachable, NotFound
from afo.site.config import load_config
from afo.site.history import LOOPBACK
from afo.site.user_state import UserState, read_token
from afo_client.cli.options import examples
from afo_client.history import server_process
from afo_client.history.rest_client import HistoryApi, ListedJob
from afo_client.terminal.console import iso, print_json, print_result, say, span_text, table

_PORT = 18089
#: How long `status` waits for an answer.
_STATUS_S = 3.0


@click.group(help="Show jobs in a browser: the history server of this machine.")
def command() -> None:
    """The verbs of the history server."""


@command.command(help="Start the history server, or say where it already runs.")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="Port; 0: any free one.")
@click.option(
    "--root",
    metavar="URL",
    help="Directory of all jobs; left out: $AFO_HISTORY_DIR, `history.directory` of the site, the runtime's.",
)
@click.option("--runtime", type=click.Choice(("local", "yarn")), help="Runtime whose jobs to show, without --root.")
@click.option("--foreground", is_flag=True, help="Serve from this terminal until Ctrl-C.")
def start(port: int, root: str | None, runtime: str | None, foreground: bool) -> None:
    """Print the address on stdout."""
    config = load_config(runtime)
    shown = root or config.history_directory.value or config.jobs_root(config.runtime.value)
    arguments = server_process.command_line(config.state_dir, shown, port, foreground)
    if foreground:
        UserState(config.state_dir).make_token(foreground)
        say("`afo history login --foreground` prints an address that signs you in")
        sys.stdout.flush()
        os.execv(arguments[0], arguments)
    server = server_process.running(config.state_dir)
    if server is None:
        server = server_process.start(config.state_dir, arguments)
        say(f"history server started over {server.root}; end it with `afo history stop`")
        say("`afo history login` prints an address that signs you in, to kill and delete jobs from their pages")
    elif server.command != arguments:
        say(
            f"a history server runs already at {server.address} over {server.root}, not as this command would start "
            "it; `afo history stop` ends it"
        )
    print_result(server.address)


@command.command(help="Stop the history server.")
def stop() -> None:
    """Stopping what does not run is no error."""
    server = server_process.running(load_config().state_dir)
    if server is None:
        say("no history server runs")
        return
    server_process.stop(server)
    say(f"history server at {server.address} stopped")


@command.command(help="Print an address that signs you in, so that you may kill and delete jobs from their pages.")
@click.option("--foreground", is_flag=True, help="For a server started with --foreground.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=_PORT, show_default=True, help="Its port, with --foreground."
)
def login(foreground: bool, port: int) -> None:
    """The address holds the server's token: it is for this user alone."""
    config = load_config()
    token = UserState(config.state_dir).token_file(foreground)
    if foreground:
        address = config.history.browser_address or f"http://{config.history.name or LOOPBACK}:{port}"
        print_result(server_process.sign_in_address(address, token))
        return
    server = server_process.running(config.state_dir)
    if server is None:
        raise NotFound("no history server runs here; `afo history start` starts one")
    print_result(server_process.sign_in_address(config.history.browser_address or server.address, token))


@command.command(help="Say where the history server runs; exit code 5 if it does not, 6 if it does not answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> None:
    """Print the address on stdout."""
    state_dir = load_config().state_dir
    server = server_process.running(state_dir)
    if server is None:
        raise NotFound("no history server runs here; `afo history start` starts one")
    try:
        _own_api(server, state_dir).check_answers(_STATUS_S)
    except ClusterUnreachable as error:
        raise ClusterUnreachable(f"{error}; it is process {server.pid}, which `afo history stop` ends") from error
    if as_json:
        print_json({"address": server.address, "pid": server.pid, "root": server.root})
    else:
        print_result(server.address)


@command.command(
    "ls",
    help="List jobs of the history server: of all users, however old, by WORDS that occur in the id, name, user, "
    "queue, cause, tags or notes.",
    epilog=examples(
        "afo history ls ctr --state FAILED --since 2026-11-01",
        "afo history ls --tag team=feeds --sort auc",
        "afo history ls ctr --column metrics.log_loss --column params.data.batch_size --sort metrics.log_loss",
    ),
)
@click.argument("words", nargs=-1)
@click.option("--server", metavar="URL", help="A history server other than this user's own.")
@click.option("--state", multiple=True, metavar="STATE", help="May be given several times.")
@click.option("--user", help="Who submitted it.")
@click.option("--queue", help="Its queue.")
@click.option("--cause", help="Why it ended.")
@click.option("--tag", metavar="NAME[=VALUE]", help="Its tag.")
@click.option("--since", metavar="TIME", help="A day, or a moment in UTC.")
@click.option("--until", metavar="TIME", help="A day, which is included, or a moment.")
@click.option("--sort", metavar="COLUMN", help="began, name, user, queue, state, seconds, auc, core_hours or a column.")
@click.option(
    "--column", multiple=True, metavar="COLUMN",
    help="metrics.NAME, params.SETTING or tags.KEY in place of AUC; may be given several times.",
)  # fmt: skip
@click.option("--ascending", is_flag=True, help="Sort in ascending order.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Maximum number of jobs."
)
@click.option("--json", "as_json", is_flag=True, help="The server's answer.")
def list_jobs(
    words: tuple[str, ...], server: str | None, limit: int, ascending: bool, as_json: bool, **asked: object
) -> None:
    """Print a table, or JSON."""
    states = tuple(str(state).upper() for state in cast(tuple[str, ...], asked.pop("state")))
    order = "asc" if ascending else ""
    question = {**asked, "q": " ".join(words), "state": states, "size": limit, "order": order}
    body, page = _api(server).jobs(question)
    if page.problem:
        say(f"warning: the list is old: {page.problem}")
    if as_json:
        print_result(body.decode())
    elif page.jobs:
        head = ("JOB", "NAME", "USER", "STATE", "CAUSE", "BEGAN", "TOOK", "CORE-HOURS", *map(_title, page.columns))
        print_result(table(head, [_row(job, cells) for job, cells in zip(page.jobs, page.cells, strict=True)]))
        if page.total > len(page.jobs):
            say(f"{page.total - len(page.jobs)} more; name a larger --limit, or more of what you look for")
    else:
        say("the server's directory of jobs does not exist" if page.missing else "no job is like that")


def _api(server: str | None) -> HistoryApi:
    if server is not None:
        return HistoryApi(server)
    state_dir = load_config().state_dir
    own = server_process.running(state_dir)
    if own is None:
        raise NotFound("no history server runs here; `afo history start` starts one, --server names another")
    return _own_api(own, state_dir)


def _own_api(server: server_process.HistoryServer, state_dir: Path) -> HistoryApi:
    return HistoryApi(server.address, read_token(UserState(state_dir).token_file()))


def _title(column: str) -> str:
    return "AUC" if column == "metrics.auc" else column.partition(".")[2]


def _cell(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4f}"


def _row(job: ListedJob, cells: tuple[float | str | None, ...]) -> tuple[str, ...]:
    return (
        job.job_id, job.name, job.user, job.state, job.cause if job.state == "FAILED" else "",
        iso(job.started or job.submitted or None) or "", "" if job.seconds is None else span_text(job.seconds),
        "" if job.core_hours is None else f"{job.core_hours:.3g}", *map(_cell, cells),
    )  # fmt: skip

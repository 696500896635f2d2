"""`afo serving`."""

import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from afo.errors import AfoError, ClusterUnreachable, NotFound, UsageError
from afo.model_servers.control_client import ModelServerClient, NobodyListens, read_client_token
from afo.model_servers.served_state import ModelServerState, SteeredModel, shortened
from afo.site.config import load_config
from afo_client.cli.options import examples
from afo_client.serving.server_table import HEAD, model_text, version_rows
from afo_client.terminal.console import print_json, print_result, say, table

_LOOK_S = 10.0
#: A call loads the version that it asks for, from a disk that may be slow.
_STEER_S = 600.0
_MODEL = re.compile(r"([^:/\s]{1,256})(?::([1-9][0-9]{0,18}))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Asked(NamedTuple):
    """A server that answered."""

    client: ModelServerClient
    state: ModelServerState


class Answers(NamedTuple):
    """Servers that answered, and what kept others from it."""

    asked: list[Asked]
    problems: list[AfoError]


@click.group(help="Show and steer model servers: those of this user here, which `afo serve` started, or another one.")
def command() -> None:
    """The verbs of model servers."""


def _of_servers(function: _Function) -> _Function:
    """The options that say which servers are meant."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object, with times in seconds since 1970."),
        click.option("--token-file", metavar="FILE", type=click.Path(), help="File with a token of the --server."),
        click.option("--server", metavar="URL", help="This server, http://HOST:8501, and none of this user's own."),
        click.option("--name", metavar="NAME", help="This user's server of this name alone."),
    ):
        function = option(function)
    return function


@command.command(
    "ls",
    help="List the versions of the models that are served: state, step, age of the newest gradient, requests a second, "
    "milliseconds of a request.",
    epilog=examples("afo serving ls", "afo serving ls --server http://ranking-1:8501 --token-file token"),
)
@_of_servers
def list_versions(name: str | None, server: str | None, token_file: str | None, as_json: bool) -> None:
    """Print a table, or JSON."""
    asked = _ask(_clients(name, server, token_file)).asked
    if as_json:
        print_json({"servers": [msgspec.to_builtins(each.state) for each in asked]})
        return
    now = time.time()
    print_result(table(HEAD, [row for each in asked for row in version_rows(each.state, now)]))


@command.command(
    help="Show a model as it is served: versions, canary, split, mirror, rejected versions. MODEL left out: all.",
    epilog=examples("afo serving status ctr"),
)
@click.argument("model", required=False)
@_of_servers
def status(model: str | None, name: str | None, server: str | None, token_file: str | None, as_json: bool) -> None:
    """Print some lines for each model."""
    answers = _ask(_clients(name, server, token_file))
    found = [(each, served) for each in answers.asked for served in each.state.models if model in (None, served.name)]
    if model is not None and not found:
        raise _unknown(model, answers)
    if as_json:
        models = [{"server": each.state.name, **msgspec.to_builtins(served)} for each, served in found]
        print_json({"models": models})
        return
    now = time.time()
    print_result("\n\n".join(model_text(each.state, served, now) for each, served in found))


@command.command(
    help="Have a version answer all requests of its model, and end a canary; left out: the canary, or the newest one, "
    "after a rollback, by way of its canary where the model has such.",
    epilog=examples("afo serving promote ctr", "afo serving promote ctr --full", "afo serving promote ctr:4"),
)
@click.argument("model", metavar="MODEL[:VERSION]")
@click.option("--full", is_flag=True, help="Without its canary: all requests at once. A VERSION is taken so anyway.")
@_of_servers
def promote(
    model: str, full: bool, name: str | None, server: str | None, token_file: str | None, as_json: bool
) -> None:
    """Steer the one server that has the model."""
    _steer("promote", model, _clients(name, server, token_file), as_json, full=full)


@command.command(
    help="Have an older version answer until another is promoted; left out: the one before.",
    epilog=examples("afo serving rollback ctr", "afo serving rollback ctr:3 --name default"),
)
@click.argument("model", metavar="MODEL[:VERSION]")
@_of_servers
def rollback(model: str, name: str | None, server: str | None, token_file: str | None, as_json: bool) -> None:
    """Steer the one server that has the model."""
    _steer("rollback", model, _clients(name, server, token_file), as_json)


def _steer(call: str, text: str, clients: list[ModelServerClient], as_json: bool, *, full: bool = False) -> None:
    match = _MODEL.fullmatch(text)
    if match is None or int(match[2] or 1) >= 1 << 63:
        raise UsageError(f"{text!r} is no model; write MODEL or MODEL:VERSION, with a version from 1 to 2^63-1")
    model, version = match[1], int(match[2]) if match[2] else None
    if full and version is not None:
        raise UsageError(f"{text} names a version, which takes all requests at once and is pinned; leave --full out")
    answers = _ask(clients)
    having = [each for each in answers.asked if any(served.name == model for served in each.state.models)]
    if not having:
        raise _unknown(model, answers)
    if len(having) > 1:
        names = ", ".join(each.state.name for each in having)
        raise UsageError(f"{model} is served by {names}; say which one is meant: --name NAME")
    after = having[0].client.steer(model, call, version, _STEER_S, full=full)
    if as_json:
        print_json({"server": having[0].state.name, "model": msgspec.to_builtins(after)})
    else:
        print_result("\n".join((_outcome(after), *_passed_over(after))))


def _outcome(model: SteeredModel) -> str:
    if model.serving_version is None:
        return f"{model.name}: no version answers"
    canary = f", beside the canary of version {model.canary.version}" if model.canary else ""
    return f"{model.name}: version {model.serving_version} answers{', pinned' if model.pinned else ''}{canary}"


def _passed_over(model: SteeredModel) -> list[str]:
    """A line for each version that a call would have taken."""
    return [
        f"version {each.version} cannot be loaded, and was passed over: {each.reason}".replace("\n", " ")
        for each in model.passed_over
    ]


def _clients(name: str | None, server: str | None, token_file: str | None) -> list[ModelServerClient]:
    """Raises NotFound where no server of this user can be there."""
    if server is not None:
        if name is not None:
            raise UsageError("--name is of this user's own servers, and --server is another one; leave one of them out")
        return [ModelServerClient(server, read_client_token(token_file) if token_file else "")]
    if token_file is not None:
        raise UsageError("--token-file is for a --server; a server of this user takes none here")
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(f"--name is {name!r}; allowed: letters, digits, `.`, `_` and `-`")
    folder = load_config().state_dir.absolute() / "servers"
    found = sorted(path for path in folder.glob(f"{name or '*'}.sock") if path.is_socket())
    if not found:
        raise _none_runs(name)
    return [ModelServerClient(str(path)) for path in found]


def _ask(clients: list[ModelServerClient]) -> Answers:
    """Those that answer. One that has ended is passed over, one that hangs is named; raises where that leaves none."""
    asked, problems = list[Asked](), list[AfoError]()
    for client in clients:
        try:
            asked.append(Asked(client, client.state(_LOOK_S)))
        except NobodyListens as error:
            if not client.is_local:
                problems.append(error)
        except AfoError as error:
            problems.append(error)
    if not asked:
        raise problems[0] if problems else _none_runs(None)
    for problem in problems:
        say(f"warning: {problem}")
    return Answers(asked, problems)


def _none_runs(name: str | None) -> NotFound:
    which = f"no model server {name}" if name else "no model server"
    return NotFound(f"{which} of yours runs here; `afo serve` starts one, --server names one elsewhere")


def _unknown(model: str, answers: Answers) -> AfoError:
    names = sorted({served.name for each in answers.asked for served in each.state.models})
    there = f"there is {shortened(', '.join(names)) or 'none'}"
    if answers.problems:
        return ClusterUnreachable(
            f"whether a model {model} is served is not known: a server did not answer; of the others {there}"
        )
    return NotFound(f"no model {model} is served; {there}")

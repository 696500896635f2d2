"""Time spans, memory and examples, which the options and help of several verbs have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from afo.errors import SpecError
from afo.formats.units import Duration, Memory

_Function = TypeVar("_Function", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """An epilog for click, its lines kept as they are. `tests/test_docs.py` parses each as a command line."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def time_option(name: str, words: str) -> Callable[[_Function], _Function]:
    """An option whose value is `10m` or `1h30m`; the function gets seconds, or None where it is left out."""
    return click.option(name, metavar="TIME", callback=_seconds, help=words)


def _seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else Duration.parse(text)
    except SpecError as error:
        raise click.BadParameter(str(error)) from error


def memory_option(function: _Function) -> _Function:
    """The option `--memory`; the function gets bytes, or None where it is left out."""
    return click.option(
        "--memory", metavar="SIZE", callback=_bytes,
        help="Memory of each process: hash tables that need more are looked up in files.  [default: what is available]",
    )(function)  # fmt: skip


def _bytes(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else Memory.parse(text) << 20
    except SpecError as error:
        raise click.BadParameter(str(error)) from error

"""Time spans and examples, which the options and help of several verbs have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from afo.errors import SpecError
from afo.formats.units import Duration

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

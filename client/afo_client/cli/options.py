"""Time spans, memory and examples, which the options and help of several verbs have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from afo.errors import SpecError
from afo.formats.units import Duration, Memory
from afo_client.terminal.console import say

#: What a process with TensorFlow takes before any table (docs/performance.md).
TENSORFLOW_MIB = 544
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
        help="Memory of each process, in binary units; hash tables that need more are looked up in files.  "
        "[default: what is available, shared by the processes]",
    )(function)  # fmt: skip


def _bytes(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    try:
        memory = None if text is None else Memory.parse(text)
    except SpecError as error:
        raise click.BadParameter(str(error)) from error
    if memory is not None and memory < TENSORFLOW_MIB:
        advice = memory.more(TENSORFLOW_MIB)
        say(f"warning: --memory is {int(memory)} MiB, and TensorFlow alone takes {TENSORFLOW_MIB}; {advice}")
    return None if memory is None else memory << 20

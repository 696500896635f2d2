"""`--keytab` and `--principal`: a command that needs no `kinit` before it."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import click

from afo.errors import NotFound, UsageError
from afo.hadoop import kerberos
from afo.process.scratch import scratch_folder

#: The one of the command that runs, which goes with its job; None without `--keytab`.
GIVEN: ContextVar[Path | None] = ContextVar("keytab", default=None)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def keytab_options(function: _Function) -> _Function:
    """Runs the command with tickets of the keytab, where one is given."""

    @click.option(
        "--keytab",
        metavar="FILE",
        help="Get Kerberos tickets with this keytab, which is sent along with a job on YARN.",
    )
    @click.option("--principal", metavar="NAME", help="Principal in the keytab; left out: the first.")
    @functools.wraps(function)
    def command(*arguments: Any, keytab: str | None, principal: str | None, **options: Any) -> Any:
        if keytab is None:
            if principal is not None:
                raise UsageError("--principal says whose key of --keytab is used; give a keytab, or run `kinit`")
            return function(*arguments, **options)
        with sign_in(Path(keytab), principal or ""):
            return function(*arguments, **options)

    return command  # type: ignore[return-value]


@contextmanager
def sign_in(keytab: Path, principal: str) -> Iterator[None]:
    """Tickets of the keytab for this process and those that it starts; the library gets new ones in time.

    Raises NotFound for a file that is not there, PermissionDenied where its key is not taken.
    """
    if not keytab.is_file():
        raise NotFound(f"--keytab: there is no file {keytab}")
    with scratch_folder("afo-tickets-") as folder:
        own = {kerberos.KEYTAB: f"FILE:{keytab.absolute()}", "KRB5CCNAME": str(Path(folder, "cache"))}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        given = GIVEN.set(keytab.absolute())
        try:
            kerberos.ticket(principal)
            yield
        finally:
            GIVEN.reset(given)
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value

"""Result of a check of `afo doctor`."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from afo.errors import AfoError


class Finding(Struct, frozen=True):
    """One line of the report; `code` is the exit code that a failure stands for."""

    name: str
    level: Literal["ok", "warn", "fail"]
    text: str
    advice: str = ""
    code: int = 1


def run_check(name: str, check: Callable[[], Finding], advice: str) -> Finding:
    """What the check finds; an error of ours is a failure with this advice."""
    try:
        return check()
    except AfoError as error:
        return Finding(name, "fail", str(error), advice, error.exit_code)

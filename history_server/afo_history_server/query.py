"""Numbers from a request's query string."""

from flask import request

from afo.errors import UsageError


def number(name: str, default: int, low: int, high: int) -> int:
    """The value of `name`. Raises `UsageError` for anything but a whole number from `low` to `high`."""
    text = request.args.get(name)
    if text is None:
        return default
    # int() alone also takes blanks, signs, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and low <= int(text) <= high):
        raise UsageError(f"{name} is {text[:40]!r}; allowed is a whole number from {low} to {high}")
    return int(text)

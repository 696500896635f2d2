"""JSON from outside of this process, decoded: whatever the bytes are, the answer is a value or one error.

What lies in a job's directory, or comes over a wire, was written by anybody. msgspec says in three ways that bytes are
not what was expected, and a file may be too large to be read into memory at all.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from afo import storage
from afo.errors import DataError

T = TypeVar("T")

#: What msgspec raises: another shape, a key that is no UTF-8, brackets nested too deeply.
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
#: Larger than any file of a job that is read whole, in bytes.
MOST_BYTES = 64 << 20


class Malformed(DataError):
    """Bytes are no JSON, or not of the shape that was expected; the text names where they came from."""


def from_json(
    data: bytes, kind: type[T], where: str, *, what: str = "", dec_hook: Callable[[type, Any], Any] | None = None
) -> T:
    """The value of some JSON. Raises Malformed, which names `where`, and `what` it is for people (else its type)."""
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=dec_hook)
    except UNDECODABLE as error:
        name = what or kind_name(kind)
        raise Malformed(f"{where}: no {name} that this version of afo understands: {reason(error)}") from error


def read(url: str, kind: type[T], *, what: str = "") -> T:
    """The value in a file. Raises Malformed, also for one of over MOST_BYTES, and what `afo.storage` raises."""
    return from_json(whole(url), kind, url, what=what)


def whole(url: str) -> bytes:
    """A file's bytes. Raises Malformed for one of over MOST_BYTES, and what `afo.storage` raises."""
    with storage.open_input(url) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Malformed(f"{url}: larger than {MOST_BYTES} bytes, which no file of its kind is")
    return data


def reason(error: Exception) -> str:
    """Why bytes were refused, in words."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def kind_name(kind: Any) -> str:
    """A type as messages call it."""
    return str(getattr(kind, "__name__", kind)).lstrip("_")

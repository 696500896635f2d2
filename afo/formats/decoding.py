"""JSON from outside of this process, decoded: whatever the bytes are, the answer is a value or one error.

What lies in a job's directory, or comes over a wire, was written by anybody. msgspec says in three ways that bytes are
not what was expected, and a file may be too large to be read into memory at all.
"""

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from afo import storage
from afo.errors import DataError

T = TypeVar("T")

#: What msgspec raises: another shape, a key that is no UTF-8, brackets nested too deeply.
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
#: Brackets around a value whose shape is not known.
MOST_NESTED = 64
_64_BITS = range(-(1 << 63), 1 << 64)
#: No integer beyond 64 bits has fewer digits; one of more than 20 is beyond.
_LONG = re.compile(rb"-?[0-9]{19,}")
#: Most bytes hold no such run of digits, which shows in a fifteenth of the regular expression's time.
_DIGITS, _RUN = bytes.maketrans(b"123456789", b"000000000"), b"0" * 19
#: Larger than any file of a job that is read whole, in bytes.
MOST_BYTES = 64 << 20


#: Types that msgspec knows, and who makes it know another.
_known: set[Any] = set()
_knowing = threading.Lock()


class Malformed(DataError):
    """Bytes are no JSON, or not of the shape that was expected; the text names where they came from."""


def known(kind: T) -> T:
    """`kind`, whose fields msgspec knows from now on: to be used wherever several threads decode.

    It looks at them when it first meets a struct, and two threads that do that at a time end the process by SIGSEGV
    (msgspec 0.22).
    """
    if kind not in _known:
        with _knowing:
            msgspec.json.Decoder(kind)
        _known.add(kind)
    return kind


def from_json(
    data: bytes, kind: type[T], where: str, *, what: str = "", dec_hook: Callable[[type, Any], Any] | None = None
) -> T:
    """The value of some JSON. Raises Malformed, which names `where`, and `what` it is for people (else its type)."""
    try:
        return require_bounded(msgspec.json.decode(data, type=known(kind), dec_hook=dec_hook), data)
    except UNDECODABLE as error:
        name = what or kind_name(kind)
        raise Malformed(f"{where}: no {name} that this version of afo understands: {reason(error)}") from error


def require_bounded(value: T, data: bytes) -> T:
    """What was decoded from `data`. Raises one of UNDECODABLE for an integer beyond 64 bits.

    Neither JSON can be made of one nor a float, so whatever shows or sums it up would fail.
    """
    if _RUN in data.translate(_DIGITS) and any(_may_be_beyond(match[0]) for match in _LONG.finditer(data)):
        check_bounds(msgspec.json.decode(data))
    return value


def _may_be_beyond(digits: bytes) -> bool:
    """It is, unless these are digits of a text or of a fraction. Every checksum of records has as many."""
    return len(digits) > len("-18446744073709551615") or int(digits) not in _64_BITS


def check_bounds(value: object) -> None:
    """Raises `msgspec.ValidationError` for an integer beyond 64 bits and for more than MOST_NESTED levels.

    `value`: of dicts, lists and scalars, as JSON is decoded without a type.
    """
    level, depth = [value], 0
    while level:
        if depth > MOST_NESTED:
            raise msgspec.ValidationError(f"more than {MOST_NESTED} brackets around a value")
        if any(isinstance(item, int) and item not in _64_BITS for item in level):
            raise msgspec.ValidationError("an integer of more than 64 bits")
        level, depth = [inner for item in level for inner in _children(item)], depth + 1


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


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def reason(error: Exception) -> str:
    """Why bytes were refused, in words."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def kind_name(kind: Any) -> str:
    """A type as messages call it."""
    return str(getattr(kind, "__name__", kind)).lstrip("_")

"""Frozen structs as JSON files: what one program hands to the next. Memory in MiB, durations in seconds."""

from pathlib import Path
from typing import TypeVar

import msgspec

from afo.errors import NotFound, SpecError
from afo.formats.decoding import MOST_BYTES, UNDECODABLE, known, reason, require_bounded, whole
from afo.formats.units import Duration, Interval, Memory, parse_quantity
from afo.storage import private_files
from afo.storage.regular_file import read_regular

T = TypeVar("T")


def encode(value: object) -> bytes:
    """JSON of a struct, quantities as plain numbers, intervals as they are written."""
    return msgspec.json.encode(value, enc_hook=_plain)


def decode(data: bytes, kind: type[T], where: str) -> T:
    """The struct that `encode` wrote. Raises `SpecError` naming `where` and the field that does not fit."""
    try:
        return require_bounded(msgspec.json.decode(data, type=known(kind), dec_hook=_quantity), data)
    except UNDECODABLE as error:
        raise SpecError(f"{where}: no {kind.__name__} that this version of afo understands: {reason(error)}") from error


def write_private(path: str | Path, value: object) -> None:
    """Write a file of mode 0600 that appears whole under its name."""
    private_files.write_private(Path(path), encode(value))


def read(path: str | Path, kind: type[T]) -> T:
    """Raises `NotFound` or `SpecError`, both naming the file; of over `MOST_BYTES` none is read."""
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}") from error
    return decode(data, kind, str(path))


def fetch(url: str, kind: type[T]) -> T:
    """As `read`, of a file by its URL. Raises what `decoding.whole` raises, and `SpecError`."""
    return decode(whole(url), kind, url)


def _quantity(kind: type, value: object) -> object:
    """As `parse_quantity`, of what `encode` wrote; jobs were stored with the seconds of an interval by time alone."""
    if kind is Interval and isinstance(value, int | float):
        value = str(Duration(value))
    return parse_quantity(kind, value)


def _plain(value: object) -> object:
    if isinstance(value, Memory):
        return int(value)
    if isinstance(value, Duration):
        return float(value)
    if isinstance(value, Interval):
        return str(value)
    raise NotImplementedError(f"no JSON for a {type(value).__name__}")

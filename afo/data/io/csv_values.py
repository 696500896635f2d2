"""Values of CSV files that no schema describes yet: each column has the narrowest type that fits what was seen."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import numpy as np

from afo.data.example import ListKind, Values
from afo.data.io.csv_file import CsvFormat, open_csv
from afo.data.io.examples import first_examples
from afo.data.io.split_files import SplitFile
from afo.errors import DataError
from afo.job import Data

#: Integers that a record holds, and real numbers.
INT64, FLOAT32_MAX = range(-(1 << 63), 1 << 63), float(np.finfo(np.float32).max)

_Cells = dict[str, list[str]]
_Fit = Literal["int64", "float", "bytes", "code"]
_CODE, _DIGITS = re.compile(r"[+-]?0[0-9]+"), re.compile(r"[+-]?[0-9]+")


def first_values(
    files: Sequence[SplitFile], data: Data, records: int, csv_format: CsvFormat, only: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, Values]]]:
    """URL and features of the first `records` records of each file, CSV or what a job reads.

    Of features not among `only` perhaps the names alone.

    Raises DataError with file and place of a damaged record, or where CSV and other files come together.
    """
    kinds = {csv_format.is_csv(file.url) for file in files}
    if kinds == {True, False}:
        first = next(file.url for file in files if not csv_format.is_csv(file.url))
        raise DataError(f"some files are CSV and {first} is none; look at them one after the other")
    if True in kinds:
        yield from _convert_cells(
            [(file.url, cells) for file in files for cells in _first_cells(file.url, records, csv_format)]
        )
        return
    for file in files:
        for features in first_examples(file.url, data, records, only):
            yield file.url, features


def count_rows(url: str, csv_format: CsvFormat) -> int:
    """All rows of a CSV file. Raises DataError with file and line."""
    with open_csv(url, csv_format) as rows:
        return sum(1 for _ in rows)


def _first_cells(url: str, most: int, csv_format: CsvFormat) -> Iterator[_Cells]:
    """Values by column; the label as 0 or 1 where it is told what means 1."""
    with open_csv(url, csv_format) as rows:
        for _, cells in zip(range(most), rows, strict=False):
            found = {name: csv_format.values(cell) for name, cell in zip(rows.columns, cells, strict=True)}
            if csv_format.positive and csv_format.label in found:
                found[csv_format.label] = [str(int(cell in csv_format.positive)) for cell in found[csv_format.label]]
            yield {name: values for name, values in found.items() if values}


def _convert_cells(rows: Sequence[tuple[str, _Cells]]) -> Iterator[tuple[str, dict[str, Values]]]:
    found: dict[str, _Fit] = {}
    for _, cells in rows:
        for name, values in cells.items():
            for value in values:
                found[name] = _wider(found.get(name, "int64"), value)
    kinds: dict[str, ListKind] = {name: "bytes" if fit == "code" else fit for name, fit in found.items()}
    for url, cells in rows:
        yield url, {name: _values(values, kinds[name]) for name, values in cells.items()}


def _wider(fit: _Fit, value: str) -> _Fit:
    """What both are, whatever the order in which values come."""
    both = {fit, _classify_value(value)}
    return next(kind for kind in ("bytes", "float", "code", "int64") if kind in both)


def _classify_value(value: str) -> _Fit:
    """`code`: digits that a number would not give back, leading zeros or more than 64 bits: an id, no quantity."""
    if _CODE.fullmatch(value) or (_DIGITS.fullmatch(value) and integer(value) is None):
        return "code"
    if integer(value) is not None:
        return "int64"
    return "float" if number(value) is not None else "bytes"


def _values(values: list[str], kind: ListKind) -> Values:
    if kind == "bytes":
        return [value.encode() for value in values]
    if kind == "int64":
        return np.array([int(value) for value in values], np.int64)
    return np.array([float(value) for value in values], np.float32)


def integer(text: str) -> int | None:
    """What it says, None if that is no 64-bit integer."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if value in INT64 and "_" not in text else None


def number(text: str) -> float | None:
    """What it says, None if that is no finite 32-bit number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= FLOAT32_MAX and "_" not in text else None

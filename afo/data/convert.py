"""CSV files to TFRecord files of `tf.Example`, by a schema."""

import csv
import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle, islice
from typing import BinaryIO, Literal

import msgspec
import numpy as np

from afo import storage
from afo.data.example import Values, encode
from afo.data.feature import Kind
from afo.data.parts import delete_other_parts, part_urls
from afo.data.schema import Schema
from afo.data.tfrecord import RecordWriter
from afo.errors import DataError, SpecError, Unsupported

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_INT64 = range(-(1 << 63), 1 << 63)


class CsvFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How the CSV files are written, and how their label becomes 0 or 1."""

    #: Names of the columns; None: the first line names them.
    columns: tuple[str, ...] | None = None
    delimiter: str = ","
    #: Lines before the header or the first row that hold no data.
    skip_lines: int = 0
    #: Take blanks away from both ends of every cell.
    strip: bool = False
    #: Cells that mean "no value"; the feature is left out of the record, and readers take its default.
    missing: tuple[str, ...] = ("",)
    #: Column of the label; None: the one named as the schema's label.
    label: str | None = None
    #: Cells of the label column that mean 1, all others 0; empty: the cells are 0 or 1.
    positive: tuple[str, ...] = ()


def convert_csv(
    inputs: Iterable[str],
    directory: str,
    schema: Schema,
    csv_format: CsvFormat,
    files: int = 1,
    compression: Literal["none", "gzip", "zlib"] = "none",
    *,
    indexed: bool = False,
) -> int:
    """Writes the rows of CSV files as `files` TFRecord files, in turn, into a directory; returns the number of rows.

    Other part files that afo wrote into the directory are deleted; with `indexed` each file has its index. If the
    schema asks for a sample id and no column holds it, it is the row's number over all inputs, from 0. Nothing is
    written unless all is right: raises DataError with file and line of the first bad row, or where there is no positive
    row among labels in words, SpecError for a schema or format that does not fit, Unsupported for features with a
    shape.
    """
    _check(schema, csv_format)
    urls = part_urls(directory, files, compression)
    row = positives = 0
    with ExitStack() as stack:
        writers = cycle([stack.enter_context(RecordWriter(url, compression, indexed=indexed)) for url in urls])
        for url in inputs:
            for features in _rows(url, schema, csv_format):
                if schema.sample_id is not None:
                    features.setdefault(schema.sample_id, np.array([row], np.int64))
                next(writers).write(encode(features))
                row += 1
                positives += schema.label is not None and bool(features[schema.label][0])
        if row == 0:
            raise DataError("the CSV files hold no rows")
        if csv_format.positive and not positives:
            words = ", ".join(map(repr, csv_format.positive))
            raise DataError(f"none of the {row:,} rows has a label of {words} (`--positive`), so that all would be 0")
    delete_other_parts(directory, urls)
    return row


def _check(schema: Schema, csv_format: CsvFormat) -> None:
    for feature in schema.features:
        if feature.shape:
            raise Unsupported(f"feature `{feature.name}` has shape {list(feature.shape)}; a CSV cell holds one value")
    if csv_format.label is not None and schema.label is None:
        raise SpecError(
            f"column {csv_format.label!r} is to be the label, and the schema names no label; add `label: …`"
        )
    if len(csv_format.delimiter) != 1:
        raise SpecError(f"delimiter {csv_format.delimiter!r} must be one character")


def _rows(url: str, schema: Schema, csv_format: CsvFormat) -> Iterator[dict[str, Values]]:
    """The features of each row of one file; errors carry file and line."""
    with storage.open_input(url) as file:
        reader = csv.reader(
            _lines(file, csv_format.skip_lines),
            delimiter=csv_format.delimiter,
            skipinitialspace=csv_format.strip,
            strict=True,
        )
        try:
            yield from _parsed(reader, schema, csv_format)
        except (DataError, csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{url}:{csv_format.skip_lines + reader.line_num}: {error}") from error


def _lines(file: BinaryIO, skipped: int) -> Iterator[str]:
    for line in islice(file, skipped, None):
        yield line.decode("utf-8-sig")


def _parsed(reader: Iterable[list[str]], schema: Schema, csv_format: CsvFormat) -> Iterator[dict[str, Values]]:
    row = None if csv_format.columns is None else _Row(csv_format.columns, schema, csv_format)
    for cells in reader:
        stripped = [cell.strip() for cell in cells] if csv_format.strip else cells
        if not any(stripped):
            continue
        if row is None:
            row = _Row(stripped, schema, csv_format)
        else:
            yield row.parse(stripped)


class _Row:
    """Turns the cells of a row into features; knows which column holds what."""

    def __init__(self, columns: Iterable[str], schema: Schema, csv_format: CsvFormat) -> None:
        self._columns = list(columns)
        self._format = csv_format
        self._features = [(self._position(feature.name), feature.name, feature.kind) for feature in schema.features]
        if schema.sample_id in self._columns:
            self._features.append((self._position(schema.sample_id), schema.sample_id, "categorical"))
        self._label_name = schema.label
        self._label = None if schema.label is None else self._position(csv_format.label or schema.label)

    def _position(self, name: str) -> int:
        if self._columns.count(name) == 1:
            return self._columns.index(name)
        if name in self._columns:
            raise DataError(f"column {name!r} is there twice")
        near = difflib.get_close_matches(name, self._columns, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise DataError(f"there is no column {name!r}; {guess}columns are: {', '.join(self._columns)}")

    def parse(self, cells: list[str]) -> dict[str, Values]:
        """Features by name; missing ones are left out."""
        if len(cells) != len(self._columns):
            raise DataError(f"{len(cells)} cells where {len(self._columns)} columns are expected")
        features: dict[str, Values] = {
            name: _PARSE[kind](cells[position], name)
            for position, name, kind in self._features
            if cells[position] not in self._format.missing
        }
        if self._label is not None and self._label_name is not None:
            features[self._label_name] = np.array([self._label_value(cells[self._label])], np.int64)
        return features

    def _label_value(self, cell: str) -> int:
        column = self._columns[self._label or 0]
        if cell in self._format.missing:
            raise DataError(f"column {column!r}: the label is missing ({cell!r})")
        if self._format.positive:
            return int(cell in self._format.positive)
        if cell not in ("0", "1"):
            raise DataError(f"column {column!r}: label {cell!r} is neither 0 nor 1; say which values are positive")
        return int(cell)


def _integer(cell: str, column: str) -> Values:
    try:
        value = int(cell)
    except ValueError:
        raise DataError(f"column {column!r}: {cell!r} is no integer") from None
    if value not in _INT64 or "_" in cell:
        raise DataError(f"column {column!r}: {cell!r} is no 64-bit integer")
    return np.array([value], np.int64)


def _number(cell: str, column: str) -> Values:
    try:
        value = float(cell)
    except ValueError:
        raise DataError(f"column {column!r}: {cell!r} is no number") from None
    if not math.isfinite(value) or abs(value) > _FLOAT32_MAX or "_" in cell:
        raise DataError(f"column {column!r}: {cell!r} is no finite 32-bit number")
    return np.array([value], np.float32)


def _text(cell: str, column: str) -> Values:
    return [cell.encode()]


_PARSE: Mapping[Kind, Callable[[str, str], Values]] = {"categorical": _integer, "dense": _number, "string": _text}

"""CSV files to TFRecord files of `tf.Example`, by a schema."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from typing import Literal

import msgspec
import numpy as np

from afo.data.example import Values, encode
from afo.data.feature import Feature, Kind
from afo.data.io.csv_file import CsvFormat, open_csv, single_column_hint
from afo.data.io.csv_values import integer, number
from afo.data.io.tfrecord import RecordWriter
from afo.data.schema import Schema
from afo.data.synthetic.data_set import check_free, delete_other_parts, part_urls
from afo.errors import DataError, SpecError, Unsupported


class Converted(msgspec.Struct, frozen=True):
    """What became of CSV files. `unmet`: cells that were to mean 1, and are in no row."""

    records: int
    unmet: tuple[str, ...] = ()


def convert_csv(
    inputs: Iterable[str],
    directory: str,
    schema: Schema,
    csv_format: CsvFormat,
    files: int = 1,
    compression: Literal["none", "gzip", "zlib"] = "none",
    *,
    indexed: bool = False,
    overwrite: bool = False,
) -> Converted:
    """Writes the rows of CSV files as `files` TFRecord files, in turn, into a directory.

    With `overwrite` they take the place of all part files there that are named as afo names them, else there must be
    none; with `indexed` each file has its index. If the
    schema asks for a sample id and no column holds it, it is the row's number over all inputs, from 0. Nothing is
    written unless all is right: raises DataError with file and line of the first bad row, or where there is no positive
    row among labels in words, SpecError for a schema or format that does not fit, Unsupported for features of several
    values without a separator, AlreadyExists.
    """
    _check(schema, csv_format)
    if not overwrite:
        check_free(directory)
    urls = part_urls(directory, files, compression)
    row, met = 0, set[str]()
    with ExitStack() as stack:
        writers = cycle([stack.enter_context(RecordWriter(url, compression, indexed=indexed)) for url in urls])
        for url in inputs:
            for features in _rows(url, schema, csv_format, met):
                if schema.sample_id is not None:
                    features.setdefault(schema.sample_id, np.array([row], np.int64))
                next(writers).write(encode(features))
                row += 1
        if row == 0:
            raise DataError("the CSV files hold no rows")
        unmet = tuple(cell for cell in csv_format.positive if cell not in met)
        if unmet and not met:
            words = ", ".join(map(repr, unmet))
            raise DataError(f"none of the {row:,} rows has a label of {words} (`--positive`), so that all would be 0")
    delete_other_parts(directory, urls)
    return Converted(row, unmet)


def _rows(url: str, schema: Schema, csv_format: CsvFormat, met: set[str]) -> Iterator[dict[str, Values]]:
    """The features of each row of one file; errors carry file and line. Labels that mean 1 go into `met`."""
    with open_csv(url, csv_format) as rows:
        if rows.columns:
            columns = _Columns(rows.columns, schema, csv_format, met)
            yield from map(columns.parse, rows)


def _check(schema: Schema, csv_format: CsvFormat) -> None:
    for feature in schema.features:
        if feature.size > 1 and not csv_format.separator:
            raise Unsupported(
                f"feature `{feature.name}` has up to {feature.size} values; name the character between those of a cell"
                " with --separator"
            )
    if csv_format.label is not None and schema.label is None:
        raise SpecError(
            f"column {csv_format.label!r} is to be the label, and the schema names no label; add `label: …`"
        )


class _Columns:
    """Turns the cells of a row into features; knows which column holds what."""

    def __init__(self, columns: Sequence[str], schema: Schema, csv_format: CsvFormat, met: set[str]) -> None:
        """`met`: where labels that mean 1 go."""
        self._columns = {name: place for place, name in enumerate(columns)}
        self._format = csv_format
        self._weighed = [
            (self._position(feature.name), self._position(feature.weights), feature)
            for feature in schema.features
            if feature.weights
        ]
        self._features = [(self._position(feature.name), feature) for feature in schema.features]
        if schema.sample_id is not None and schema.sample_id in columns:
            self._features.append(
                (self._position(schema.sample_id), Feature(name=schema.sample_id, kind="categorical"))
            )
        self._weight = csv_format.weight
        if self._weight is not None and self._weight not in schema.names:
            kind: Kind = "categorical" if schema.stored.get(self._weight) == "int64" else "dense"
            self._features.append((self._position(self._weight), Feature(name=self._weight, kind=kind)))
        self._label_name = schema.label
        self._label_column = csv_format.label or schema.label or ""
        self._label = self._position(self._label_column) if schema.label is not None else None
        self._met = met

    def _position(self, name: str) -> int:
        if name in self._columns:
            return self._columns[name]
        near = difflib.get_close_matches(name, self._columns, n=1)
        hint = single_column_hint(list(self._columns)) or (f"did you mean {near[0]!r}?" if near else "")
        guess = f"{hint} " if hint else ""
        raise DataError(f"there is no column {name!r}; {guess}columns are: {', '.join(self._columns)}")

    def parse(self, cells: list[str]) -> dict[str, Values]:
        """Features by name; missing ones are left out."""
        for place, of_weights, feature in self._weighed:
            self._check_weights(cells[place], cells[of_weights], feature)
        features: dict[str, Values] = {}
        for position, feature in self._features:
            if found := self._values(cells[position], feature):
                features[feature.name] = _PARSE[feature.kind](found, feature.name)
        if self._weight is not None and self._weight not in features:
            raise DataError(f"column {self._weight!r}: the weight is missing")
        if self._label is not None and self._label_name is not None:
            features[self._label_name] = np.array([self._label_value(cells[self._label])], np.int64)
        return features

    def _values(self, cell: str, feature: Feature) -> list[str]:
        if feature.size == 1 and feature.max_length is None:
            return [] if not cell or cell in self._format.missing else [cell]
        found = self._format.values(cell)
        if found and feature.max_length is None and len(found) != feature.size:
            raise DataError(
                f"column {feature.name!r}: {len(found)} values in {cell!r}, and the schema has"
                f" {feature.size}; `max_length` is for any number"
            )
        return found

    def _check_weights(self, cell: str, weights: str, feature: Feature) -> None:
        """Both lists lack values at the same places, so that what is left out moves no weight to another value."""
        missing, without = ([part is None for part in self._format.parts(text)] for text in (cell, weights))
        if missing != without and not (all(missing) and all(without)):
            raise DataError(
                f"column {feature.name!r}: {cell!r} and its weights in column {feature.weights!r}, {weights!r}, are "
                "not of the same places; leave out a value together with its weight"
            )

    def _label_value(self, cell: str) -> int:
        column = self._label_column
        if not cell or cell in self._format.missing:
            raise DataError(f"column {column!r}: the label is missing ({cell!r})")
        if self._format.positive:
            positive = cell in self._format.positive
            if positive:
                self._met.add(cell)
            return int(positive)
        if cell not in ("0", "1"):
            raise DataError(f"column {column!r}: label {cell!r} is neither 0 nor 1; say which values are positive")
        return int(cell)


def _integers(cells: list[str], column: str) -> Values:
    values = [integer(cell) for cell in cells]
    if None in values:
        raise DataError(f"column {column!r}: {cells[values.index(None)]!r} is no 64-bit integer")
    return np.array(values, np.int64)


def _numbers(cells: list[str], column: str) -> Values:
    values = [number(cell) for cell in cells]
    if None in values:
        raise DataError(f"column {column!r}: {cells[values.index(None)]!r} is no finite 32-bit number")
    return np.array(values, np.float32)


def _texts(cells: list[str], column: str) -> Values:
    return [cell.encode() for cell in cells]


_PARSE: Mapping[Kind, Callable[[list[str], str], Values]] = {
    "categorical": _integers, "dense": _numbers, "string": _texts,
}  # fmt: skip

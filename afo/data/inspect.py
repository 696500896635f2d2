"""What lies in a data set: its files, and the features that the first records hold."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec
import numpy as np

from afo.data.example import ListKind, Values, decode, kind_of
from afo.data.schema import Feature, Kind, Schema
from afo.data.splits import SplitFile, find_splits
from afo.data.tfrecord import compression_of, count_records, read_records
from afo.errors import DataError

_KIND: dict[ListKind, Kind] = {"int64": "categorical", "bytes": "string", "float": "dense"}
_LABEL_NAMES = ("label", "click", "clicked")
_SAMPLE_ID_NAMES = ("sample_id",)


class FileReport(msgspec.Struct, frozen=True):
    """One file; `records` is None unless all were counted, which also verifies every checksum."""

    url: str
    bytes: int
    compression: str
    records: int | None


class FeatureReport(msgspec.Struct, frozen=True):
    """One feature in the records that were looked at."""

    name: str
    kind: ListKind
    present: int  #: records that hold it
    min_length: int  #: fewest and most values in a record that holds it
    max_length: int
    distinct: int  #: different values seen
    min: int | float | None  #: of numbers
    max: int | float | None


class Report(msgspec.Struct, frozen=True):
    """Files of a data set and the features of its first records."""

    files: tuple[FileReport, ...]
    features: tuple[FeatureReport, ...]
    looked_at: int  #: records behind `features`


def inspect_files(globs: Iterable[str], records: int = 1000, files: int = 4, count: bool = False) -> Report:
    """Reports on the files that match, and on the first `records` records of each of the first `files` of them.

    With `count` every record is read and its checksum verified. Raises NotFound for a glob without a file, DataError
    with file and offset for a damaged record.
    """
    splits = find_splits(globs)
    seen: dict[str, _Seen] = {}
    looked_at = 0
    for split in splits[:files]:
        for features in first_examples(split.url, records):
            looked_at += 1
            for name, values in features.items():
                seen.setdefault(name, _Seen(name, kind_of(values))).add(values, split.url)
    reports = (_file_report(split, count) for split in splits)
    return Report(tuple(reports), tuple(seen[name].report() for name in sorted(seen)), looked_at)


def first_examples(url: str, records: int) -> Iterator[dict[str, Values]]:
    """The first records of a file, decoded. Raises DataError with file and number of the record."""
    for number, record in enumerate(islice(read_records(url), records)):
        try:
            yield decode(record)
        except DataError as error:
            raise DataError(f"{url}: record {number}: {error}") from error


def _file_report(split: SplitFile, count: bool) -> FileReport:
    records = count_records(split.url) if count else None
    return FileReport(split.url, split.size, compression_of(split.url), records)


class _Seen:
    """Gathers what is known of one feature."""

    def __init__(self, name: str, kind: ListKind) -> None:
        self._name = name
        self._kind = kind
        self._lengths: list[int] = []
        self._values: set[int | float | bytes] = set()

    def add(self, values: Values, url: str) -> None:
        if len(values) and kind_of(values) != self._kind:
            raise DataError(
                f"{url}: feature `{self._name}` holds {kind_of(values)} values here and {self._kind} before"
            )
        self._lengths.append(len(values))
        self._values.update(values.tolist() if isinstance(values, np.ndarray) else values)

    def report(self) -> FeatureReport:
        numbers = [value for value in self._values if not isinstance(value, bytes)]
        return FeatureReport(
            name=self._name,
            kind=self._kind,
            present=len(self._lengths),
            min_length=min(self._lengths),
            max_length=max(self._lengths),
            distinct=len(self._values),
            min=min(numbers, default=None),
            max=max(numbers, default=None),
        )


def infer_schema(report: Report) -> tuple[Schema, list[str]]:
    """A schema for review, and notes on what it leaves out.

    Integers become categorical, byte strings string, real numbers dense. A feature named `label` or `click` that holds
    0 and 1 alone becomes the label, `sample_id` the sample id. Raises DataError when no feature can be described.
    """
    label = _named(report, _LABEL_NAMES, lambda each: each.min in (0, 1) and each.max in (0, 1))
    sample_id = _named(report, _SAMPLE_ID_NAMES, lambda each: each.distinct == report.looked_at)
    features, notes = [], []
    for each in report.features:
        if each.name in (label, sample_id):
            continue
        if each.min_length == each.max_length > 0:
            shape = () if each.max_length == 1 else (each.max_length,)
            features.append(Feature(name=each.name, kind=_KIND[each.kind], shape=shape))
        else:
            notes.append(
                f"{each.name} is left out: {each.min_length} to {each.max_length} values a record, not a fixed number"
            )
    if not features:
        raise DataError(f"no feature of a fixed number of values in the {report.looked_at} records that were looked at")
    return Schema(features=tuple(features), label=label, sample_id=sample_id), notes


def _named(report: Report, names: Iterable[str], fits: Callable[[FeatureReport], bool]) -> str | None:
    for each in report.features:
        if each.name in names and each.kind == "int64" and each.max_length == 1 and fits(each):
            return each.name
    return None

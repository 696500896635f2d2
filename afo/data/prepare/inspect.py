"""Inspection of a data set: its files, and the features that the first records hold."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from afo.data.example import ListKind, Values, kind_of
from afo.data.io import parquet
from afo.data.io.csv_file import PLAIN, CsvFormat, csv_compression
from afo.data.io.csv_values import count_rows, first_values
from afo.data.io.examples import LOOK
from afo.data.io.formats import is_parquet
from afo.data.io.split_files import SplitFile, find_splits
from afo.data.io.tfrecord import compression_of, count_records
from afo.errors import DataError
from afo.job import Data

#: Quantiles of a feature, the lowest and the highest value among them.
QUANTILES = 17
#: Intervals that the values of a feature are parted into.
_INTERVALS = 16


class FileReport(msgspec.Struct, frozen=True):
    """One file; `records` is None unless all were counted, which also verifies every checksum of TFRecord."""

    url: str
    bytes: int
    compression: str
    records: int | None
    format: Literal["tfrecord", "parquet", "csv"] = "tfrecord"
    unread: dict[str, str] = {}  #: columns of Parquet that can be no features, with their types


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
    #: Of all numbers seen, in equal steps from the lowest to the highest: `QUANTILES` of them; none of byte strings.
    quantiles: tuple[float, ...] = ()
    #: Where intervals of about as many values begin; one that is very frequent is alone in its interval.
    boundaries: tuple[float, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """Files of a data set and the features of its first records."""

    files: tuple[FileReport, ...]
    features: tuple[FeatureReport, ...]
    looked_at: int  #: records behind `features`

    @property
    def unread(self) -> str:
        """A sentence on columns that can be no features; empty where all can."""
        columns = {name: kind for file in self.files for name, kind in file.unread.items()}
        if not columns:
            return ""
        return f"columns that can be no features: {', '.join(f'{column} ({columns[column]})' for column in columns)}"


def inspect_files(
    globs: Iterable[str], records: int = 1000, files: int = 4, count: bool = False, csv_format: CsvFormat = PLAIN
) -> Report:
    """Reports on the files that match, and on the first `records` records of each of the first `files` of them.

    With `count` every record is read and its checksum verified. Raises NotFound for a glob without a file, DataError
    with file and offset for a damaged record.
    """
    splits = find_splits(globs)
    features, looked_at = look(splits[:files], LOOK, records, csv_format)
    return Report(tuple(_file_report(split, count, csv_format) for split in splits), features, looked_at)


def look(
    files: Sequence[SplitFile], data: Data, records: int, csv_format: CsvFormat = PLAIN
) -> tuple[tuple[FeatureReport, ...], int]:
    """The features of the first `records` records of each file by name, and how many records that were."""
    seen: dict[str, _Seen] = {}
    looked_at = 0
    for url, features in first_values(files, data, records, csv_format):
        looked_at += 1
        for name, values in features.items():
            seen.setdefault(name, _Seen(name)).add(values, url)
    return tuple(seen[name].report() for name in sorted(seen)), looked_at


def _file_report(split: SplitFile, count: bool, csv_format: CsvFormat) -> FileReport:
    if csv_format.is_csv(split.url):
        rows = count_rows(split.url, csv_format) if count else None
        return FileReport(split.url, split.size, csv_compression(split.url), rows, "csv")
    if is_parquet("auto", split.url):
        rows, compression = parquet.facts(split.url)
        unread = parquet.unread_columns(split.url)
        return FileReport(split.url, split.size, compression, rows if count else None, "parquet", unread)
    return FileReport(split.url, split.size, compression_of(split.url), count_records(split.url) if count else None)


class _Seen:
    """Gathers what is known of one feature."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: Of the first list that was not empty: an empty one says nothing.
        self._kind: ListKind | None = None
        self._lengths: list[int] = []
        self._values: set[int | float | bytes] = set()
        #: Lists of numbers as they came.
        self._numbers: list[NDArray[np.float32]] = []

    def add(self, values: Values, url: str) -> None:
        if len(values):
            self._kind = self._kind or kind_of(values)
            if kind_of(values) != self._kind:
                raise DataError(
                    f"{url}: feature `{self._name}` holds {kind_of(values)} values here and {self._kind} before"
                )
        self._lengths.append(len(values))
        self._values.update(values.tolist() if isinstance(values, np.ndarray) else values)
        if isinstance(values, np.ndarray):
            self._numbers.append(values.astype(np.float32))

    def report(self) -> FeatureReport:
        numbers = [value for value in self._values if not isinstance(value, bytes)]
        found = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.float32)
        found = found[np.isfinite(found)]
        return FeatureReport(
            name=self._name,
            kind=self._kind or "bytes",
            present=len(self._lengths),
            min_length=min(self._lengths),
            max_length=max(self._lengths),
            distinct=len(self._values),
            min=min(numbers, default=None),
            max=max(numbers, default=None),
            quantiles=_quantiles(found),
            boundaries=tuple(_boundaries(found)),
        )


def _quantiles(numbers: NDArray[np.float32]) -> tuple[float, ...]:
    """Values that were seen, none between two of them."""
    if not numbers.size:
        return ()
    return tuple(map(_short, np.quantile(numbers, np.linspace(0, 1, QUANTILES), method="nearest")))


def _boundaries(numbers: NDArray[np.float32]) -> Iterator[float]:
    """The first value of each interval but the lowest."""
    values, counts = np.unique(numbers, return_counts=True)
    left, inside, intervals = numbers.size, 0, _INTERVALS
    for value, count in zip(values, counts.tolist(), strict=True):
        if inside and intervals > 1 and (inside * intervals >= left or count * intervals >= left):
            yield _short(value)
            left, inside, intervals = left - inside, 0, intervals - 1
        inside += count


def _short(value: np.float32) -> float:
    """The shortest number that is this one where 32 bits hold it."""
    return float(str(value))

"""Statistics of a data set's features: how they are filled and spread, what they tell of the label, how they drift."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from afo.data.example import ListKind, Values, kind_of
from afo.data.io.csv_file import PLAIN, CsvFormat
from afo.data.io.csv_values import first_values
from afo.data.io.examples import LOOK
from afo.data.io.split_files import SplitFile, find_splits
from afo.errors import DataError, NotFound
from afo.job import Data

#: Quantiles that are told.
QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
#: Most frequent values that are told.
TOP = 5
#: Bins of a real number, by quantiles of the training data; values of a category that are a bin each, the others being
#: one together.
_REAL_BINS, _CATEGORY_BINS = 10, 100
#: Values of one feature after which no more records are looked at: lists may be long.
MOST_VALUES = 1_000_000
#: Added to each bin of either side, so that an empty one has a logarithm.
_SMOOTH = 0.5
#: From where on a population stability index is usually called a large shift.
DRIFTED = 0.25
_NAN = math.nan
#: Below it a float is a whole number of its own.
_EXACT = 2**53


class TopValue(msgspec.Struct, frozen=True):
    """A value, and its share of all values of its feature."""

    value: str
    share: float


class FeatureProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One feature. Shares are 0 to 1; `mean` to `quantiles` are of finite numbers, and None or empty without any."""

    name: str
    kind: ListKind
    #: Records that hold a value, of all.
    coverage: float
    #: Values in a record that holds one, in the mean.
    length: float
    distinct: int
    #: Share of values that are NaN or infinite, of numbers.
    not_finite: float = 0.0
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    #: At `QUANTILES`.
    quantiles: tuple[float, ...] = ()
    top: tuple[TopValue, ...] = ()
    #: Pearson's with the label, of numbers; None where either is constant.
    correlation: float | None = None
    #: Share of the label's entropy that the feature takes away (Theil's U), less what chance would (Miller and Madow).
    label_info: float | None = None
    #: Population stability index of the evaluation data against the training data, less what samples of this size
    #: would show without any drift; a missing value is a bin, and so is what is not finite.
    drift: float | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A data set; `records` were looked at, `evaluation` of the evaluation data."""

    records: int
    evaluation: int
    label: str
    #: Share of records with a label above 0.
    positive: float | None
    features: tuple[FeatureProfile, ...]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How far a look goes: the first `records` of each of `files` files, `values` of all features together.

    `names`: these features alone; `data` says how the files are read.
    """

    records: int = 5_000
    files: int = 8
    values: int = sys.maxsize
    names: frozenset[str] | None = None
    data: Data = LOOK
    csv_format: CsvFormat = PLAIN


class _Column:
    """The values of one feature, each with the record that holds it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: ListKind | None = None
        #: As they came: a float cannot hold every id of 64 bits.
        self._numbers: list[NDArray[np.int64] | NDArray[np.float32]] = []
        self._bytes: list[bytes] = []
        self._records: list[int] = []
        self._lengths: list[int] = []
        self.count = 0

    def add(self, record: int, values: Values, url: str) -> None:
        if not len(values):
            return
        self.kind = self.kind or kind_of(values)
        if kind_of(values) != self.kind:
            raise DataError(f"{url}: feature `{self.name}` holds {kind_of(values)} values here and {self.kind} before")
        if isinstance(values, np.ndarray):
            self._numbers.append(values)
        else:
            self._bytes += values
        self._records.append(record)
        self._lengths.append(len(values))
        self.count += len(values)

    @property
    def filled(self) -> int:
        """Records that hold a value."""
        return len(self._records)

    # What follows is asked once all records are there.

    @cached_property
    def records(self) -> NDArray[np.int64]:
        """The record of each value."""
        return np.repeat(np.asarray(self._records, np.int64), np.asarray(self._lengths, np.int64))

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        return self._stored.astype(np.float64)

    @cached_property
    def _stored(self) -> NDArray[Any]:
        return np.concatenate(self._numbers) if self._numbers else np.empty(0)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        return self.numbers[np.isfinite(self.numbers)]

    @cached_property
    def values(self) -> Sequence[float | bytes]:
        """One NaN for all, which are different ones to a dict."""
        return self._bytes or [number if number == number else _NAN for number in self._stored.tolist()]

    @property
    def not_finite(self) -> float:
        return 1 - self.finite.size / self.numbers.size if self.numbers.size else 0.0


class _Table:
    """The first records of some files, by feature; none after one has `MOST_VALUES` values."""

    def __init__(self, files: Sequence[SplitFile], look: Look) -> None:
        self.records = 0
        self.columns: dict[str, _Column] = {}
        total = 0
        for url, features in first_values(files, look.data, look.records, look.csv_format, look.names):
            if total >= look.values or any(column.count >= MOST_VALUES for column in self.columns.values()):
                return
            chosen = features if look.names is None else {name: features[name] for name in look.names & features.keys()}
            total += sum(map(len, chosen.values()))
            for name, values in chosen.items():
                self.columns.setdefault(name, _Column(name)).add(self.records, values, url)
            self.records += 1

    def label(self, name: str) -> NDArray[np.float64]:
        """The label of each record, NaN where it has none. Raises NotFound where no record has it as a number."""
        column = self.columns.get(name)
        if column is None or not column.numbers.size:
            known = ", ".join(sorted(self.columns))
            raise NotFound(f"no number called `{name}` is in the first {self.records:,} records; there are: {known}")
        labels = np.full(self.records, np.nan)
        labels[column.records] = column.numbers
        return labels


def profile_files(
    train: Iterable[str],
    evaluation: Iterable[str] = (),
    label: str = "",
    records: int = 5_000,
    files: int = 8,
    csv_format: CsvFormat = PLAIN,
) -> Profile:
    """The first `records` records of each of so many files, which are spread evenly over all that match the globs.

    With a `label`, what each feature tells of it; with evaluation data, their drift. Raises NotFound for a glob
    without a file and for a label that is none, DataError with file and place for a damaged record.
    """

    evaluation = tuple(evaluation)
    look = Look(records=records, files=files, csv_format=csv_format)
    return profile_splits(find_splits(train), find_splits(evaluation) if evaluation else (), label, look)


def profile_splits(train: Sequence[SplitFile], evaluation: Sequence[SplitFile], label: str, look: Look) -> Profile:
    """As `profile_files`, of files that are known."""
    table = _Table(_sample_files(train, look.files), look)
    other = _Table(_sample_files(evaluation, look.files), look) if evaluation else None
    labels = table.label(label) if label else None
    names = [name for name in sorted({*table.columns, *(other.columns if other else ())}) if name != label]
    return Profile(
        records=table.records, evaluation=other.records if other else 0, label=label,
        positive=float(np.mean(labels[np.isfinite(labels)] > 0)) if labels is not None else None,
        features=tuple(_profile_feature(name, table, other, labels) for name in names),
    )  # fmt: skip


def _sample_files(files: Sequence[SplitFile], most: int) -> Sequence[SplitFile]:
    return files[:: -(-len(files) // most)]


def _profile_feature(
    name: str, table: _Table, other: _Table | None, labels: NDArray[np.float64] | None
) -> FeatureProfile:
    column = table.columns.get(name) or _Column(name)
    compared = (other.columns.get(name) or _Column(name)) if other else None
    numbers = column.finite
    counts = Counter(column.values)
    bins = _Bins(column, counts)
    at = labels[column.records] if labels is not None and column.count else None
    return FeatureProfile(
        name=name, kind=column.kind or (compared.kind if compared else None) or "bytes",
        coverage=column.filled / max(1, table.records), length=column.count / max(1, column.filled),
        distinct=len(counts), not_finite=column.not_finite,
        mean=float(numbers.mean()) if numbers.size else None, std=float(numbers.std()) if numbers.size else None,
        min=float(numbers.min()) if numbers.size else None, max=float(numbers.max()) if numbers.size else None,
        quantiles=tuple(np.quantile(numbers, QUANTILES).tolist()) if numbers.size else (),
        top=tuple(TopValue(value_text(value), count / column.count) for value, count in counts.most_common(TOP)),
        correlation=None if at is None else _correlation(column.numbers, at),
        label_info=None if at is None else _information(bins.of(column), at),
        drift=None if other is None or compared is None else bins.drift(column, table.records, compared, other.records),
    )  # fmt: skip


class _Bins:
    """What the values of a feature are counted by: intervals of real numbers, else the most frequent values."""

    def __init__(self, column: _Column, counts: Counter[float | bytes]) -> None:
        self._edges: NDArray[np.float64] | None = None
        if column.kind == "float":
            inner = np.linspace(0, 1, _REAL_BINS + 1)[1:-1]
            self._edges = np.unique(np.quantile(column.finite, inner)) if column.finite.size else np.empty(0)
        self._place = {value: place for place, (value, _) in enumerate(counts.most_common(_CATEGORY_BINS))}
        #: One is for what is beyond: rare values, or what is not finite.
        self.number = len(self._place) + 1 if self._edges is None else len(self._edges) + 2

    def of(self, column: _Column) -> NDArray[np.int64]:
        """The bin of each value."""
        if self._edges is not None:
            places = np.searchsorted(self._edges, column.numbers, side="right")
            return np.where(np.isfinite(column.numbers), places, self.number - 1).astype(np.int64)
        other = len(self._place)
        return np.fromiter((self._place.get(value, other) for value in column.values), np.int64, column.count)

    def drift(self, a: _Column, a_records: int, b: _Column, b_records: int) -> float:
        """Sum over bins of (q - p) ln(q / p), the population stability index, less its mean without drift.

        That is (bins - 1)(1 / n + 1 / m) for samples of n and m (B. Yurdakul, 2018, theorem 2.2).
        """
        ours, theirs = self._counts(a, a_records), self._counts(b, b_records)
        if not ours.sum() or not theirs.sum():
            return 0.0
        some = int(np.count_nonzero(ours + theirs))
        p, q = ((counts + _SMOOTH) / (counts + _SMOOTH).sum() for counts in (ours, theirs))
        index = float(np.sum((q - p) * np.log(q / p)))
        return max(0.0, index - (some - 1) * float(1 / ours.sum() + 1 / theirs.sum()))

    def _counts(self, column: _Column, records: int) -> NDArray[np.float64]:
        counts = np.bincount(self.of(column), minlength=self.number) if column.count else np.zeros(self.number)
        return np.append(counts, records - column.filled).astype(np.float64)


def _correlation(numbers: NDArray[np.float64], labels: NDArray[np.float64]) -> float | None:
    if not numbers.size:
        return None
    known = np.isfinite(numbers) & np.isfinite(labels)
    x, y = numbers[known], labels[known]
    if x.size < 2 or x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _information(bins: NDArray[np.int64], labels: NDArray[np.float64]) -> float | None:
    """I(X; Y) / H(Y) of bins X and the label above 0 or not; the bias (|X| - 1)(|Y| - 1) / 2n is taken away."""
    known = np.isfinite(labels)
    x, y = bins[known], labels[known] > 0
    if not x.size:
        return None
    counts = np.stack([np.bincount(x[y == side], minlength=int(x.max()) + 1) for side in (False, True)])
    joint = np.asarray(counts[:, counts.sum(axis=0) > 0] / x.size, np.float64)
    of_label, of_bins = (np.asarray(joint.sum(axis=axis), np.float64) for axis in (1, 0))
    entropy = _entropy(of_label)
    if entropy == 0:
        return None
    information = entropy + _entropy(of_bins) - _entropy(joint.ravel())
    return float(max(0.0, information - (of_bins.size - 1) / (2 * x.size)) / entropy)


def _entropy(shares: NDArray[np.float64]) -> float:
    some = shares[shares > 0]
    return float(-np.sum(some * np.log(some)))


def value_text(value: float | bytes) -> str:
    """A value of a feature as it is shown: whole numbers whole, as ids differ in their last digits."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < _EXACT)
    return str(int(value)) if is_whole else f"{value:.6g}"

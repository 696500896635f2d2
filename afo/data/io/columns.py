"""A Parquet file as blocks of what the parser of columns takes, in an order that is fixed by a seed."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from afo.data.feature import Feature, Kind
from afo.data.io.arrays import concatenate, fill_array, take_rows
from afo.data.io.bad_records import misfit_of_label
from afo.data.io.parquet import Column, batches, column, open_parquet
from afo.data.schema import Schema
from afo.errors import DataError
from afo.job import Data

#: Rows that are mixed into the others at once: few enough for a processor's cache.
_MIXED_ROWS = 1 << 14


class Columns(NamedTuple):
    """Rows of a Parquet file; [n, …] in a block."""

    #: Name → [n, values], defaults in place of what is absent.
    features: dict[str, Any]
    #: float32 [n, labels].
    labels: Any
    #: float32 [n].
    weight: Any
    #: int64 [n]: the sample id and 0; without one the row's number and a hash of the file's URL.
    key: Any
    file: Any

    def map(self, function: Callable[[Any], Any]) -> "Columns":
        """The same of each column."""
        features = {name: function(values) for name, values in self.features.items()}
        return Columns(features, *(function(values) for values in self[1:]))


def signature(schema: Schema, data: Data, specs: dict[str, Any]) -> Columns:
    """The nest of a block, of the features `specs`."""
    return Columns(
        features={feature.name: specs[feature.name] for feature in schema.features},
        labels=tf.TensorSpec([None, len(data.labels)], tf.float32),
        weight=tf.TensorSpec([None], tf.float32),
        key=tf.TensorSpec([None], tf.int64),
        file=tf.TensorSpec([None], tf.int64),
    )


class ColumnFile(NamedTuple):
    """A Parquet file to read: errors call it `url`; with `labelled` false it need hold neither label nor weight."""

    path: Path
    url: str
    labelled: bool = True


def column_blocks(
    file: ColumnFile, schema: Schema, data: Data, refuse: Callable[[str], None], seed: int, skip: int, size: int
) -> Iterator[Columns]:
    """Arrays of up to `size` rows each, without the first `skip` rows of the order that `seed` says.

    `refuse` is told of each row that does not fit the schema. Raises DataError for a file that cannot be read.
    """
    blocks = _Reader(file, schema, data, refuse).blocks()
    if data.shuffle.buffer > 1:
        blocks = shuffle_rows(blocks, data.shuffle.buffer, seed)
    return rebatch(blocks, skip, size)


def shuffle_rows(blocks: Iterable[Columns], buffer: int, seed: int) -> Iterator[Columns]:
    """All rows in another order: each waits among `buffer` others until it is drawn."""
    random = np.random.default_rng(seed)
    pool: Columns | None = None
    for block in _pieces(blocks, _MIXED_ROWS):
        pool = block if pool is None else _concatenate_blocks([pool, block])
        drawn = random.permutation(len(pool.weight))
        surplus = max(0, len(drawn) - buffer)
        if surplus:
            yield _select_rows(pool, drawn[:surplus])
            pool = _select_rows(pool, drawn[surplus:])
    if pool is not None:
        yield _select_rows(pool, random.permutation(len(pool.weight)))


def _pieces(blocks: Iterable[Columns], size: int) -> Iterator[Columns]:
    for block in blocks:
        for start in range(0, len(block.weight), size):
            yield _slice_rows(block, start, start + size)


def rebatch(blocks: Iterable[Columns], skip: int, size: int) -> Iterator[Columns]:
    """All rows but the first `skip`, `size` at once; fewer in the last block.

    Only blocks that hold rows of two given ones are copied.
    """
    waiting: list[Columns] = []
    lacking = size
    for block in blocks:
        count, start = len(block.weight), min(skip, len(block.weight))
        skip -= start
        while count - start >= lacking:
            yield _concatenate_blocks([*waiting, _slice_rows(block, start, start + lacking)])
            start += lacking
            waiting, lacking = [], size
        if start < count:
            waiting.append(_slice_rows(block, start, count))
            lacking -= count - start
    if waiting:
        yield _concatenate_blocks(waiting)


def _slice_rows(block: Columns, start: int, stop: int) -> Columns:
    return block.map(lambda values: values[start:stop])


def _select_rows(block: Columns, rows: NDArray[np.int64]) -> Columns:
    return block.map(lambda values: take_rows(values, rows))


def _concatenate_blocks(blocks: list[Columns]) -> Columns:
    if len(blocks) == 1:
        return blocks[0]
    names = blocks[0].features
    return Columns(
        {name: concatenate([block.features[name] for block in blocks]) for name in names},
        *(concatenate(parts) for parts in zip(*(block[1:] for block in blocks), strict=True)),
    )


class _Reader:
    def __init__(self, file: ColumnFile, schema: Schema, data: Data, refuse: Callable[[str], None]) -> None:
        self._path = str(file.path)
        self._url = file.url
        self._schema = schema
        self._refuse = refuse
        self._file = int.from_bytes(hashlib.blake2b(file.url.encode(), digest_size=8).digest(), signed=True)
        self._width = len(data.labels)
        self._labels = data.labels if file.labelled else ()
        self._weight = data.weight if file.labelled else None
        self._sample_id = data.sample_id
        #: Columns that every row must have a value of.
        self._outputs = [name for name in (*self._labels, self._weight, self._sample_id) if name]

    def blocks(self) -> Iterator[Columns]:
        """The rows that fit."""
        start = 0
        with open_parquet(self._url, self._path) as file:
            self._check(file.schema_arrow.names)
            for batch in batches(file, {*self._schema.names, *self._outputs}):
                block, misfits = self._block(batch, start)
                for row in misfits:
                    self._refuse(f"{self._url}: row {start + row}: {self._reason(batch, int(row))}")
                yield _select_rows(block, np.delete(np.arange(batch.num_rows), misfits)) if len(misfits) else block
                start += batch.num_rows

    def _check(self, names: list[str]) -> None:
        for name in self._outputs:
            if name not in names:
                raise DataError(f"{self._url}: there is no column `{name}`; there are: {', '.join(names[:20])}")

    def _block(self, batch: Any, start: int) -> tuple[Columns, NDArray[np.intp]]:
        """The rows, and the numbers of those that do not fit."""
        rows, ids = batch.num_rows, self._sample_id
        features = {feature.name: column(batch, feature, self._url) for feature in self._schema.features}
        outputs = {name: self._output(batch, name) for name in self._outputs}
        masks = [cells.fits for cells in (*features.values(), *outputs.values()) if cells.fits is not None]
        labels = [outputs[name].values for name in self._labels] or [fill_array((rows, self._width), 0, np.float32)]
        block = Columns(
            features={name: cells.values for name, cells in features.items()},
            labels=labels[0] if len(labels) == 1 else concatenate(labels, axis=1),
            weight=outputs[self._weight].values[:, 0] if self._weight else fill_array((rows,), 1, np.float32),
            key=outputs[ids].values[:, 0] if ids else concatenate([np.arange(start, start + rows)]),
            file=fill_array((rows,), 0 if ids else self._file, np.int64),
        )
        return block, np.flatnonzero(~np.logical_and.reduce(masks)) if masks else np.empty(0, np.intp)

    def _output(self, batch: Any, name: str) -> Column:
        """As `_read_required`; a label that is neither 0 nor 1 does not fit either."""
        found = self._read_required(batch, name, self._kind(name))
        if name not in self._labels:
            return found
        right = np.isin(found.values[:, 0], (0, 1))
        return found if right.all() else Column(found.values, right if found.fits is None else found.fits & right)

    def _read_required(self, batch: Any, name: str, kind: Kind) -> Column:
        """A column of one value in every row; others do not fit."""
        found = column(batch, Feature(name=name, kind=kind), self._url)
        array = batch.column(name)
        if not array.null_count:
            return found
        present = array.is_valid().to_numpy(zero_copy_only=False)
        return Column(found.values, present if found.fits is None else found.fits & present)

    def _reason(self, batch: Any, row: int) -> str:
        one = batch.slice(row, 1)
        for feature in self._schema.features:
            if not _fits(column(one, feature, self._url)):
                value = one.column(feature.name)[0].as_py()
                count = len(value) if isinstance(value, list) else 1
                return f"column `{feature.name}` holds {count} values where the schema's shape needs {feature.size}"
        for name in self._outputs:
            if not _fits(self._read_required(one, name, self._kind(name))):
                return f"it lacks a value of `{name}`"
        wrong = next(name for name in self._labels if not _fits(self._output(one, name)))
        return misfit_of_label(wrong, one.column(wrong)[0].as_py())

    def _kind(self, name: str) -> Kind:
        return "categorical" if name == self._sample_id else "dense"


def _fits(one: Column) -> bool:
    """Whether a column of one row does."""
    return one.fits is None or bool(one.fits[0])

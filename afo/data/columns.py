"""A Parquet file as blocks of what the parser of columns takes, in an order that is fixed by a seed."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from afo.data.parquet import Column, batches, column, opened
from afo.data.schema import Feature, Kind, Schema
from afo.errors import DataError
from afo.job import Data


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
    """Tensors of up to `size` rows each, without the first `skip` rows of the order that `seed` says.

    `refuse` is told of each row that does not fit the schema. Raises DataError for a file that cannot be read.
    """
    blocks = _Reader(file, schema, data, refuse).blocks()
    if data.shuffle.buffer > 1:
        blocks = mixed(blocks, data.shuffle.buffer, seed)
    for block in rebatched(blocks, skip, size):
        yield tf.nest.map_structure(tf.convert_to_tensor, block)


def mixed(blocks: Iterable[Columns], buffer: int, seed: int) -> Iterator[Columns]:
    """All rows in another order: each waits among `buffer` others until it is drawn."""
    random = np.random.default_rng(seed)
    pool: Columns | None = None
    for block in blocks:
        pool = block if pool is None else _joined([pool, block])
        drawn = random.permutation(len(pool.weight))
        surplus = max(0, len(drawn) - buffer)
        if surplus:
            yield _rows(pool, drawn[:surplus])
            pool = _rows(pool, drawn[surplus:])
    if pool is not None:
        yield _rows(pool, random.permutation(len(pool.weight)))


def rebatched(blocks: Iterable[Columns], skip: int, size: int) -> Iterator[Columns]:
    """All rows but the first `skip`, `size` at once; fewer in the last block."""
    waiting: list[Columns] = []
    count = 0
    for block in blocks:
        rest = _rows(block, slice(skip, None))
        skip -= min(skip, len(block.weight))
        waiting.append(rest)
        count += len(rest.weight)
        if count < size:
            continue
        whole = _joined(waiting)
        for start in range(0, count - count % size, size):
            yield _rows(whole, slice(start, start + size))
        waiting, count = [_rows(whole, slice(count - count % size, None))], count % size
    if count:
        yield _joined(waiting)


def _rows(block: Columns, index: Any) -> Columns:
    rows: Columns = tf.nest.map_structure(lambda values: values[index], block)
    return rows


def _joined(blocks: list[Columns]) -> Columns:
    if len(blocks) == 1:
        return blocks[0]
    joined: Columns = tf.nest.map_structure(lambda *values: np.concatenate(values), *blocks)
    return joined


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
        with opened(self._url, self._path) as file:
            self._check(file.schema_arrow.names)
            for batch in batches(file, {*self._schema.names, *self._outputs}):
                block, fits = self._block(batch, start)
                for row in np.flatnonzero(~fits):
                    self._refuse(f"{self._url}: row {start + row}: {self._reason(batch, int(row))}")
                yield block if fits.all() else _rows(block, fits)
                start += batch.num_rows

    def _check(self, names: list[str]) -> None:
        for name in self._outputs:
            if name not in names:
                raise DataError(f"{self._url}: there is no column `{name}`; there are: {', '.join(names[:20])}")

    def _block(self, batch: Any, start: int) -> tuple[Columns, Any]:
        features = {each.name: column(batch, each, self._url) for each in self._schema.features}
        rows = batch.num_rows
        labels = [self._required(batch, name, "dense") for name in self._labels]
        labels = labels or [Column(np.zeros((rows, self._width), np.float32), np.ones(rows, np.bool_))]
        weight = Column(np.ones((rows, 1), np.float32), np.ones(rows, np.bool_))
        key = Column(np.arange(start, start + rows)[:, None], np.ones(rows, np.bool_))
        if self._weight:
            weight = self._required(batch, self._weight, "dense")
        if self._sample_id:
            key = self._required(batch, self._sample_id, "categorical")
        fits = np.logical_and.reduce([each.fits for each in (*features.values(), *labels, weight, key)])
        block = Columns(
            features={name: each.values for name, each in features.items()},
            labels=np.concatenate([each.values for each in labels], axis=1),
            weight=weight.values[:, 0],
            key=key.values[:, 0],
            file=np.full(rows, 0 if self._sample_id else self._file, np.int64),
        )
        return block, fits

    def _required(self, batch: Any, name: str, kind: Kind) -> Column:
        """A column of one value in every row; others do not fit."""
        found = column(batch, Feature(name=name, kind=kind), self._url)
        present = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        return Column(found.values, found.fits & present)

    def _reason(self, batch: Any, row: int) -> str:
        one = batch.slice(row, 1)
        for feature in self._schema.features:
            if not column(one, feature, self._url).fits[0]:
                value = one.column(feature.name)[0].as_py()
                count = len(value) if isinstance(value, list) else 1
                return f"column `{feature.name}` holds {count} values where the schema's shape needs {feature.size}"
        lacking = [name for name in self._outputs if not self._required(one, name, self._kind(name)).fits[0]]
        return f"it lacks a value of `{lacking[0]}`"

    def _kind(self, name: str) -> Kind:
        return "categorical" if name == self._sample_id else "dense"

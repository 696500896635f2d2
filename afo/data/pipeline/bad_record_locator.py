"""Location of the bad records of a block: which cannot be parsed, where they stand, what is wrong with them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from afo.data.example import ListKind, decode, kind_of
from afo.data.io.bad_records import BadRecords, misfit_of_count, misfit_of_label
from afo.data.io.tfrecord import locate
from afo.data.pipeline.batch_fragments import as_tensors
from afo.data.pipeline.split_reader import Lease
from afo.data.schema import Schema
from afo.errors import DataError
from afo.job import Data


def sound(parse: Callable[[Any], Any], block: Any) -> NDArray[np.bool_]:
    """Which records of a block [n] `parse` takes; found by halving, so a few bad ones cost little."""
    count = int(tf.nest.flatten(block)[0].shape[0])
    try:
        parse(block)
    except tf.errors.InvalidArgumentError:
        if count <= 1:
            return np.zeros(count, np.bool_)
        halves = (slice(0, count // 2), slice(count // 2, count))
        parts = [tf.nest.map_structure(lambda tensor, part=part: tensor[part], block) for part in halves]
        return np.concatenate([sound(parse, part) for part in parts])
    return np.ones(count, np.bool_)


def misfit(urls: Iterable[str], error: tf.errors.OpError) -> DataError:
    """TensorFlow's complaint of records, when it is about none of them alone."""
    return DataError(f"{', '.join(urls)}: a record does not fit the schema: {error.message.splitlines()[0]}")


class Judge:
    """Says of a record that cannot be parsed where it stands and what is wrong with it."""

    def __init__(self, schema: Schema, data: Data, bad: BadRecords, parse: Callable[[Any], Any]) -> None:
        self._schema = schema
        self._data = data
        self._bad = bad
        self._parse = parse

    def compute(self, function: Callable[[Any], Any], block: Any, lease: Lease, path: Path) -> Any:
        """What `function` makes of a block, without the records that cannot be parsed. Raises DataError if none may be.

        `path` is where the split's file lies.
        """
        try:
            return function(as_tensors(block))
        except tf.errors.InvalidArgumentError as error:
            keep = self.check_records(block, lease, path)
            if keep.all():
                raise misfit([lease.url], error) from error
            return function(tf.nest.map_structure(lambda tensor: tf.boolean_mask(tensor, keep), block))

    def check_records(self, block: Any, lease: Lease, path: Path) -> NDArray[np.bool_]:
        """Which records of a block can be parsed [n]; the others are counted. Raises DataError if none may be."""
        keep = sound(self._parse, as_tensors(block))
        if not keep.all():
            self._refuse(tf.boolean_mask(block, ~keep), lease, path)
        return keep

    def _refuse(self, records: Any, lease: Lease, path: Path) -> None:
        for record in records.numpy():
            offset = locate(str(path), record, self._data.compression, lease.part) if self._bad.is_named else None
            place = f"{lease.url}: record" if offset is None else f"{lease.url}: record at offset {offset}"
            self._bad.add(lease, f"{place}: {self._reason(record)}", unread=False)

    def _reason(self, record: bytes) -> str:
        try:
            features = decode(record)
        except DataError as error:
            return str(error)
        if wrong := self._schema.misfit(features):
            return wrong
        data = self._data
        for name in (*data.labels, data.weight, data.sample_id):
            if name is not None and (wrong := misfit_of_count(name, features.get(name, ()))):
                return wrong
            if name is not None and (kind := kind_of(features[name])) not in self._kinds(name):
                return f"`{name}` holds {kind} values where {' or '.join(self._kinds(name))} is needed"
        for name in data.labels:
            if wrong := misfit_of_label(name, features[name][0]):
                return wrong
        return "it cannot be parsed"

    def _kinds(self, name: str) -> tuple[str, ...]:
        usual: ListKind = "float" if name == self._data.weight else "int64"
        return (self._schema.stored_as(name, usual),)

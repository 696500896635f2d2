"""Which records of a block cannot be parsed, where they stand, and what is wrong with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from afo.data.bad_records import BadRecords
from afo.data.example import decode, kind_of
from afo.data.schema import Schema
from afo.data.split_reader import Lease
from afo.data.tfrecord import locate
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


class Judge:
    """Says of a record that cannot be parsed where it stands and what is wrong with it."""

    def __init__(self, schema: Schema, data: Data, bad: BadRecords) -> None:
        self._schema = schema
        self._data = data
        self._bad = bad

    def refuse(self, records: Any, lease: Lease, path: Path) -> None:
        """Count `records` (string [n]) of a split whose file lies at `path`. Raises DataError if none may be."""
        for record in records.numpy():
            offset = locate(str(path), record, self._data.compression) if self._bad.is_named else None
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
            if name is not None and len(features.get(name, ())) != 1:
                return f"it holds {len(features.get(name, ()))} values of `{name}` where one is needed"
            if name is not None and (kind := kind_of(features[name])) not in self._kinds(name):
                return f"`{name}` holds {kind} values where {' or '.join(self._kinds(name))} is needed"
        return "it cannot be parsed"

    def _kinds(self, name: str) -> tuple[str, ...]:
        usual = "float" if name == self._data.weight else "int64"
        return (self._schema.stored.get(name, usual),)
